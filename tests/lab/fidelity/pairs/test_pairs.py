"""How a prediction is judged against the run that came, on figures made up; the bars are the replay's own."""

import dataclasses
import gzip
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard

from pipeline.measures.chance import NORMAL_REACH
from pipeline.replay.simulated.topics import MODEL_ERROR
from tests.lab.facts import CONTROL_BIT, HEADER
from tests.lab.fidelity.pairs.compare import (
    RIGHT_WAY,
    WRONG_WAY,
    compare_back_test,
    compare_change,
    format_rows,
    measure_peak,
)
from tests.lab.fidelity.pairs.draw import FOLDER, SIGHT, TALLY
from tests.lab.fidelity.pairs.errors import SHARES, Miss, fit_error, format_errors
from tests.lab.fidelity.pairs.figures import measure_minutes, measure_plain_bytes
from tests.lab.fidelity.pairs.misses import BACK_TEST, CHANGE
from tests.lab.fidelity.pairs.predict import Prediction, Range
from tests.lab.fidelity.pairs.report import NEAR, count_figures, format_tally
from tests.lab.fidelity.pairs.sight import format_baseline, format_ranges, read_changes
from tests.lab.fidelity.pairs.tables import PairTable
from tests.lab.fidelity.rows import HOLDS, MISSES


def run(*, shares=(40, 30, 30), records_per_batch=10.0, throughput=1000.0, p50=5.0, p95=20.0, p99=50.0):
    sizes = [
        {"leader": number, "size_bytes": 1000 * share, "plain_bytes": 1000 * share}
        for number, share in enumerate(shares)
    ]
    return {
        "partitions": sizes,
        "records_per_batch": records_per_batch,
        "throughput_records_per_s": throughput,
        "latency_p50_ms": p50,
        "latency_p95_ms": p95,
        "latency_p99_ms": p99,
    }


def predicted(*, deviation_points=0.1, error=0.0, **figures):
    real, shares = run(**figures), {}
    for place, each in enumerate(real["partitions"]):
        share = each["size_bytes"] / 1e5
        half = NORMAL_REACH * math.hypot(deviation_points / 100, error * math.sqrt(share * (1 - share)))
        shares[place] = 0.0, Range(share, share - half, share + half, 2 * NORMAL_REACH)
    largest = max(median.median for _, median in shares.values()) * len(shares)
    figures = {name: Range(real[name], real[name], real[name]) for name in real if name != "partitions"}
    peaks = dict.fromkeys(("peak_to_mean", "broker_peak_to_mean"), Range(largest, largest, largest))
    return Prediction(shares, shares, {}, figures | peaks, "trusted", ())


def by_figure(rows):
    return {row.figure: row for row in rows}


def test_a_prediction_that_is_exact_holds_every_bar():
    """All figures, and each change that is larger than its bar has its sign."""
    before, after = run(), run(shares=(60, 20, 20), records_per_batch=20.0, p99=100.0)
    rows = by_figure(compare_change(before, after, {"in-use": predicted(), "after": predicted(shares=(60, 20, 20), records_per_batch=20.0, p99=100.0)}))  # fmt: skip  # one call, read as a sentence

    assert {row.verdict for row in rows.values()} == {HOLDS}
    assert {name for name, row in rows.items() if row.way} == {
        *(f"bytes on broker {number}, %" for number in range(3)),
        "peak-to-mean of brokers",
        "records per batch",
        "latency p99, ms",
    }
    assert {row.way for row in rows.values() if row.way} == {RIGHT_WAY}


@pytest.mark.parametrize(
    ("figures", "missed"),
    [
        ({"shares": (42.1, 28, 29.9)}, {"bytes on broker 0, %", "peak-to-mean of brokers"}),
        ({"shares": (41.9, 28.1, 30)}, set()),
        ({"records_per_batch": 11.6}, {"records per batch"}),
        ({"throughput": 968.0}, {"records/s"}),
        ({"p50": 6.6, "p95": 13.9, "p99": 34.0}, {"latency p50, ms", "latency p95, ms", "latency p99, ms"}),
    ],
)
def test_what_is_further_off_than_its_bar_misses(figures, missed):
    """Two points, 5, 15, 3 and 30 percent."""
    rows = compare_change(run(), run(), {"in-use": predicted(), "after": predicted(**figures)})

    assert {row.figure for row in rows if row.verdict == MISSES} == missed


@pytest.mark.parametrize(("deviation", "bar", "verdict"), [(2.0, "5.0 pt", HOLDS), (0.1, "2.0 pt", MISSES)])
def test_seeds_that_spread_widen_the_bar_of_a_share(deviation, bar, verdict):
    """Two and a half standard deviations of the seeds; what the model itself is off by widens the range alone."""
    found = predicted(shares=(44, 28, 28), deviation_points=deviation, error=MODEL_ERROR.share)
    rows = by_figure(compare_change(run(), run(), {"in-use": predicted(), "after": found}))

    assert (rows["bytes on broker 0, %"].bar, rows["bytes on broker 0, %"].verdict) == (bar, verdict)


def test_trust_has_a_precision_and_a_recall():
    """Of four predictions three are near, the bar of the one that spreads being 25 points; trusted are one near and one far."""
    told = []
    for title, trust, real, deviation in (
        ("near", "trusted", (40, 30, 30), 0.1),
        ("far but vague", "trusted", (48, 22, 30), 10.0),
        ("near, doubted", "not trustworthy: no reason", (40, 30, 30), 0.1),
        ("a little off, doubted", "not trustworthy: no reason", (41, 29, 30), 0.1),
    ):
        rows = compare_back_test(run(shares=real), {"in-use": predicted(deviation_points=deviation)})
        table = PairTable(None, BACK_TEST, title, rows, Prediction({}, {}, {}, {}, trust, ["nothing"]))
        told += [(table, row) for row in rows]
    assert {
        row.verdict for table, row in told if table.title == "far but vague" and row.figure.startswith("bytes")
    } == {HOLDS}
    tally = count_figures(told)
    assert tally["near shares"] == [10, 12]  # the two brokers of the one that is far are not
    assert tally["shares"] == [10, 12]  # the two that are a little off lie outside their narrow ranges
    assert format_tally(tally)[-1] == (
        "trust: 1 of 2 trusted predictions are within their bars (goal 98 %), "
        "1 of 3 within their bars are trusted (goal 80 %)"
    )


def miss(pair="b", *, off, chance):
    return Miss(pair, SHARES, off, chance)


def test_what_the_model_is_off_by_is_what_nine_of_ten_figures_need():
    """Of ten the worst may lie outside; a figure within its range needs nothing."""
    misses = [miss(off=0.05 * NORMAL_REACH, chance=0.03 * NORMAL_REACH), miss(off=0.5, chance=0.1)]
    assert fit_error([*misses, *([miss(off=0.01, chance=0.02)] * 8)]) == pytest.approx(0.04)
    assert fit_error([miss(off=0.01, chance=0.02)]) == 0


def test_the_models_error_is_tested_on_pairs_it_was_not_fitted_on():
    """The other way round each pair alone would be in its range; figures of one class are judged together."""
    told = []
    for name, real in (("near", 10.0), ("near too", 10.0), ("far", 11.0)):
        found = predicted()
        wide = dataclasses.replace(found, figures=found.figures | {"records_per_batch": Range(10.0, 9.8, 10.2)})
        recording = SimpleNamespace(pair=SimpleNamespace(name=name))
        rows = compare_back_test(run(records_per_batch=real), {"in-use": wide})
        told += [(PairTable(recording, BACK_TEST, name, rows, predicted()), row) for row in rows]
    batches, shares = format_errors(told)  # seeds of other figures agree to the last digit
    assert batches == (
        "records per batch, current setup, trusted: 2 of 3 in their ranges, nine of ten with an error of 0.057 more; "
        "with that of the other pairs 2"
    )
    assert shares.startswith(
        "shares, current setup, trusted: 9 of 9 in their ranges, nine of ten with an error of 0.000 more"
    )


@pytest.mark.parametrize("part", ["00", "01", "02", "03"])
def test_ranges_of_a_first_sight_are_read_as_they_were_counted(part):
    """All classes together; three digits are printed, so that some figures seem to lie in a range, or to have none."""
    tally, lines = json.loads((FOLDER / part / TALLY).read_text()), format_ranges([FOLDER / part / SIGHT]).splitlines()
    for kind, digits in (("records per batch", 0.08), ("p99", 0), (SHARES, 0.03)):
        found = [re.findall(r"(\d+) of (\d+) in", line)[0] for line in lines if line.startswith(kind)]
        inside, count = (sum(map(int, column)) for column in zip(*found, strict=True))
        assert [inside, count] == pytest.approx(tally[kind], rel=digits, abs=0)


@pytest.mark.parametrize("part", ["00", "01", "02", "03"])
def test_shares_of_a_first_sight_are_held_against_nothing_changes(part):
    """Oracle: the stored tally; one digit is printed, so that a few lie on the bar."""
    lines = format_baseline([FOLDER / part / SIGHT]).splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    shares = [row for row in rows if "shares" in row[0] and "that" not in row[0]]
    near, count = (sum(int(row[column].split()[0]) for row in shares) for column in (3, 1))
    assert [near, count] == pytest.approx(json.loads((FOLDER / part / TALLY).read_text())[NEAR], abs=2)
    assert {row[5] for row in rows if "changed" in row[0]} == {"0"}
    assert all(row[5] == row[1] for row in rows if "did not" in row[0])
    assert all(0 < int(row[4]) <= int(row[1]) for row in shares)


def test_a_back_test_has_the_narrower_bar():
    """A point and a half."""
    rows = by_figure(compare_back_test(run(), {"in-use": predicted(shares=(41.6, 29.2, 29.2))}))

    assert rows["bytes on broker 0, %"].verdict == MISSES
    assert rows["bytes on broker 1, %"].verdict == HOLDS


@pytest.mark.parametrize(("told", "verdict"), [((7, 5, 3), HOLDS), ((7, 6, 2), MISSES)])
def test_records_that_keys_place_are_held_exactly(told, verdict):
    """Not a record may be elsewhere; where seeds differ it is not keys alone, and shares are judged."""
    real = run()
    for each, count in zip(real["partitions"], (7, 5, 3), strict=True):
        each["record_count"] = count
    keyed = dataclasses.replace(predicted(), records={place: Range(n, n, n) for place, n in enumerate(told)})
    drawn = dataclasses.replace(predicted(), records={place: Range(n, n - 1, n + 1) for place, n in enumerate(told)})

    assert by_figure(compare_back_test(real, {"in-use": keyed}))["partitions wrong by a record"].verdict == verdict
    assert "partitions wrong by a record" not in by_figure(compare_back_test(real, {"in-use": drawn}))


def test_a_change_told_the_other_way_round_is_named():
    """The real share fell, the replay's rose."""
    found = {"in-use": predicted(), "after": predicted(shares=(45, 27.5, 27.5))}
    rows = compare_change(run(), run(shares=(30, 35, 35)), found)

    assert by_figure(rows)["bytes on broker 0, %"].way == WRONG_WAY
    assert WRONG_WAY in format_rows("a pair", rows)


@pytest.mark.parametrize(("reach", "claimed"), [(1.0, [1, 1]), (8.0, [0, 0])])
def test_no_direction_is_claimed_of_a_change_within_the_ranges(reach, claimed):
    """20 ms before and 30 after: two runs of which each lies 8 ms off by chance may differ by 11; the change stays counted."""
    found = {
        side: dataclasses.replace(each, figures=each.figures | {"latency_p95_ms": Range(p95, p95 - reach, p95 + reach)})
        for side, p95 in (("in-use", 20.0), ("after", 30.0))
        for each in [predicted()]
    }
    rows = compare_change(run(), run(p95=60.0), found)
    table = PairTable(None, CHANGE, "a pair", rows, predicted())
    tally = count_figures([(table, row) for row in rows])

    assert tally["right way"] == [1, 1]
    assert tally["claimed way"] == claimed
    assert ("not claimed" in format_rows("a pair", rows)) == (claimed == [0, 0])
    assert f"{claimed[0]} of {claimed[1]} of those larger than the ranges" in format_tally(tally)[0]


@pytest.mark.parametrize(("trust", "counted"), [("trusted", 1), ("not trustworthy: no reason", 0)])
def test_a_direction_is_trusted_where_its_figure_is(trust, counted):
    """A doubt about latencies is one about their direction; shares may be trusted all the same."""
    found = {"in-use": predicted(), "after": dataclasses.replace(predicted(p95=30.0), trusts={"latency": trust})}
    table = PairTable(None, CHANGE, "a pair", compare_change(run(), run(p95=60.0), found), found["after"])

    assert count_figures([(table, row) for row in table.rows])["trusted way"] == [counted, counted]


def test_each_question_has_a_precision_and_a_recall_of_its_own():
    """Records per batch are trusted and wrong, latencies right and doubted; the hottest broker cools as it was said to."""
    trusts = {"direction": "trusted", "records per batch": "trusted", "latency": "not trustworthy: a wait"}
    found = {"in-use": predicted(), "after": dataclasses.replace(predicted(shares=(35, 35, 30)), trusts=trusts)}
    rows = compare_change(run(), run(shares=(34, 36, 30), records_per_batch=20.0), found)
    table = PairTable(None, CHANGE, "a pair", rows, found["after"])
    tally = count_figures([(table, row) for row in rows])

    assert {kind: counts for kind, counts in tally.items() if ", " in kind} == {
        "trusted and right, direction": [1, 1],
        "right and trusted, direction": [1, 1],
        "trusted and right, records per batch": [0, 1],
        "right and trusted, records per batch": [0, 0],
        "trusted and right, latency": [0, 0],
        "right and trusted, latency": [0, 1],
    }
    assert "trust in records per batch: 0 of 1 trusted answers are right (goal 98 %)" in "\n".join(format_tally(tally))


def test_tails_of_latency_that_are_not_told_are_neither_right_nor_wrong():
    """They are said to be unknown; any other figure that is missing misses."""
    figures = predicted().figures
    for name, shown, is_there in (
        ("latency_p95_ms", "latency p95, ms", False),
        ("records_per_batch", "records per batch", True),
    ):
        told = dataclasses.replace(predicted(), figures={key: figures[key] for key in figures if key != name})
        rows = by_figure(compare_back_test(run(), {"in-use": told}))
        assert (shown in rows) == is_there
        assert not is_there or rows[shown].verdict == MISSES


def test_figures_of_each_minute_tell_a_cold_start_from_the_rest():
    """Of two producers; a minute without a record has none."""
    seconds = np.array([1, 2, 121, 122])
    times = [np.column_stack([seconds * 10**9, np.array([800, 600, 3, own]) * 10**6]) for own in (3, 5)]
    minutes = measure_minutes(np.concatenate(times))

    assert [each["latency_max_ms"] for each in minutes] == [800, 5]


@pytest.mark.parametrize(
    ("part", "said", "is_claimed"),
    [
        ("00", "draw-03-0: latency p95, ms, 47.7 -> 117.3, predicted 48.1 -> 48", False),
        ("01", "draw-01-1: peak-to-mean of partitions, 2.05 -> 1.93, predicted 2.06 -> 2.3", True),
        ("02", "draw-01-0: latency p95, ms, 36.2 -> 20.7, predicted 41.3 -> 41.4", False),
        ("02", "draw-02-0: latency p95, ms, 42.3 -> 23.3, predicted 32.5 -> 78.4", True),
    ],
)
def test_directions_of_a_first_sight_are_read_as_they_were_counted(part, said, is_claimed):
    """A wrong one whose prediction says that nothing changes is not claimed; one that says the contrary is."""
    folder = FOLDER / part
    changes = list(read_changes(folder / SIGHT))

    assert [sum(right for _, right, _ in changes), len(changes)] == json.loads((folder / TALLY).read_text())[
        "right way"
    ]
    assert (said, False, is_claimed) in changes


@pytest.mark.parametrize(("codec", "compress"), [(0, bytes), (1, gzip.compress), (4, zstandard.compress)])
def test_a_peak_is_of_bytes_before_compression(tmp_path, codec, compress):
    """Headers of small batches and markers do not count; nor what a codec left, where records of several sizes meet."""
    for partition, (size, number) in enumerate([(1_000, 3), (250, 4)]):
        folder = tmp_path / str(partition)
        folder.mkdir()
        batches = [(codec, compress(bytes(size)))] * number + [(CONTROL_BIT, bytes(5_000))]
        log = b"".join(
            HEADER.pack(0, HEADER.size - 12 + len(data), 0, 2, 0, bits, 0, 0, 0, -1, -1, -1, 1) + data
            for bits, data in batches
        )
        (folder / "00000000000000000000.log").write_bytes(log)
    plain = [measure_plain_bytes(tmp_path / str(partition)) for partition in range(2)]
    assert plain == [3_000, 1_000]
    partitions = [{"leader": leader, "plain_bytes": size} for leader, size in enumerate(plain)]
    assert measure_peak({"partitions": partitions}, "broker") == pytest.approx(1.5)


def test_what_the_replay_does_not_tell_misses():
    """No number is no prediction."""
    silent = Prediction({0: (0.4, None), 1: (0.3, None), 2: (0.3, None)}, {}, {}, {}, "not trustworthy: …", ())
    rows = compare_change(run(), run(), {"in-use": silent, "after": silent})

    assert {row.verdict for row in rows} == {MISSES}
