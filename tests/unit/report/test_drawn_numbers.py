"""What charts draw are the numbers of their tables, for every chart; `tests/spark/test_report_queries.py` holds those to Spark's.

Oracle: the numbers table below each chart, read out of the page, by the sums written here; no text is formatted by the product's
functions again. A chart, or a column of numbers in one, that nothing here compares fails the test.
"""

import re
from importlib.resources import files

import polars as pl
import pytest

from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, instant_of
from pipeline.report.brokers import WAITING
from pipeline.report.page import gather_report, render_report
from pipeline.runs import plan_runs
from tests.report_page import read_answers, read_page
from tests.report_tables import T0_MS, write_config, write_rows, write_warehouse

UNITS = {"%": 0.01, "kB": 1e3, "MB": 1e6, "GB": 1e9, "µs": 1e-3, "s": 1e3}
NUMBER = re.compile(r"([+\N{MINUS SIGN}]?)(\d[\d,]*)(\.\d+)?\s?(%|[kMG]B|µs|s\b)?")


def of(*names):
    """The values of columns, those that are NULL left out."""
    return lambda row: [row[name] for name in names if row[name] is not None]


def ranged(name):
    """A prediction with its range, where its ends differ in what is shown."""
    return of(name, f"{name}_low", f"{name}_high")


DRAWN = {
    "judged": {"value": of("value"), "limit": of("limit_value")},
    "shares": {
        "share": of("share"),
        "ratio": of("share_ratio"),
        "chance": of("chance_ratio"),
        "bytes in": of("size_bytes"),
    },
    "zones": {"bytes": of("size_bytes"), "a month": of("cost_per_month")},
    "causes": {"points": None},  # one row is drawn over several lines: has its own test
    "advice": {"ratio after": ranged("predicted_ratio"), "copies": lambda row: [row["moved_bytes"]] if row["moved_bytes"] else []},
    "promises": {
        "promised": ranged("corrected_ratio"),
        "without": of("without_ratio"),
        "it is": of("actual_ratio"),
    },
    "topics": {
        "points": lambda row: [100 * row["excess_bytes"] / row["all_bytes"]],
        "on this broker": of("own_bytes"),
        "in the cluster": of("size_bytes"),
    },
    "hot_partitions": {
        "over mean": of("ratio_to_mean"),
        "bytes": of("size_bytes"),
        "heavy keys": of("heavy_keys_bytes"),
        "hash luck": of("hash_luck_bytes"),
        "neither": of("remainder_bytes"),
    },
    "hot_keys": {"of its topic": of("topic_ratio"), "bytes": of("size_bytes"), "leader": of("leader_id")},
    "latency": {
        "mean": of("request_latency_avg_ms"),
        "longest": of("request_latency_max_ms"),
        "to peers": of("ratio_to_peers"),
        "to its history": of("ratio_to_history"),
    },
    "room": {
        "can carry": lambda row: [min(1.0, 1 / row["share_ratio"])],
        "busiest moment": of("peak_ratio"),
        "handlers idle": of("request_handler_idle_ratio"),
        "network idle": of("network_processor_idle_ratio"),
        "disk full in": of("hours_to_full"),
        "next 7 days": of("highest_ratio"),
    },
    "waiting": {
        "in the queue": of("queue_time_ms"),
        "throttled": of("throttle_time_ms"),
        "waits for memory": of("buffer_blocked_ratio"),
        "retries": of("retries_per_s"),
        "errors": of("errors_per_s"),
    },
    "replay": {
        "highest broker": ranged("peak"),
        "keys moved": of("keys_moved_ratio"),
        "median latency": ranged("latency_p50_ms"),
        "records per batch": of("records_per_batch"),
    },
    "back_tests": {
        "predicted": ranged("predicted_share"),
        "observed": of("observed_share"),
        "error, points": of("share_error_points"),
        "may be": of("share_bar_points"),
    },
    "sources": {
        "complete": lambda row: [min(1.0, row["arrived_count"] / row["expected_count"])],
        "arrived": of("arrived_count"),
        "expected": of("expected_count"),
        "age of newest": of("newest_at"),  # NULL here
        "problems": of("problem_count"),
    },
    "abstentions": {"subjects": of("subject_count")},
    "quarantine": {"places": of("place_count")},
}  # fmt: skip  # a chart a line
"""Of each chart with rows the columns of numbers, and the values that stand behind a cell."""
LINES = {"share_lines", "latency_lines"}
OTHERS = {"verdicts", "incidents", "partitions"}
"""Charts that are no table; each has its own test."""
RANK = {"newest", "share_lines_ranks", "latency_lines_ranks"}
"""Statements that choose what is shown, and show nothing."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_warehouse(folder / "warehouse")
    newest = pl.lit(instant_of(T0_MS + 5 * HOUR_MS))
    disk = pl.DataFrame({"rule": "disk_hours_to_full", "subject": ["broker 0"], "value": 2.0})
    ahead = pl.DataFrame({"subject": "broker 0", "horizon_hours": [24, 48], "value": [1.3, 1.4], "is_trusted": True})
    ahead = ahead.with_columns(measure=pl.lit("share_ratio"))
    moves = {"subject": ["broker 1"], "rank": 2, "title": "move", "topic": "orders", "share_ratio": 1.5, "text": ""}
    moves |= dict.fromkeys(("predicted_ratio", "predicted_ratio_low", "predicted_ratio_high"), 1.2)
    moves |= {"moved_bytes": 4_210_000, "is_enough": False}
    tables = {"gold.rule_measures": disk, "gold.forecast": ahead, "gold.recommendations": pl.DataFrame(moves)}
    for name, rows in tables.items():
        write_rows(folder / "warehouse", name, rows.with_columns(window_start=newest))
    end_ms = T0_MS + 6 * HOUR_MS
    (run,) = plan_runs(write_config(folder), TimeWindow(end_ms - HOUR_MS, end_ms), run_id="r", now_ms=end_ms)
    report = gather_report(run, until_ms=end_ms, length_ms=DAY_MS)
    return read_page(render_report([report], now_ms=end_ms, command="sql"))


@pytest.fixture(scope="module")
def answers(page):
    return {name: rows_of(columns, rows) for name, (_, columns, rows) in read_answers(page).items()}


def rows_of(columns, rows):
    return [{name: value_of(cell) for name, cell in zip(columns, row, strict=True)} for row in rows]


def value_of(cell):
    if cell == "NULL":
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def read_numbers(text):
    """Numbers of a drawn cell in the units of its table, each with how far its last digit lets it be off."""
    found = []
    for sign, whole, decimals, unit in NUMBER.findall(text):
        scale = UNITS.get(unit, 1.0) * (-1 if sign == "\N{MINUS SIGN}" else 1)
        digits = whole.replace(",", "") + decimals
        last = 10.0 ** -max(0, len(decimals) - 1)
        found.append((float(digits) * scale, 0.5001 * last * abs(scale)))
    return found


def drawn_rows(chart):
    """A dict of texts by column for each drawn row."""
    table = chart.one("table", class_="rows")
    heads = [head.text.strip() for head in table.one("thead").all("th")]
    for row in table.one("tbody").all("tr"):
        if row.attributes.get("class") not in {"group", "note"}:
            cells = [cell.text.strip() for cell in row.children if not isinstance(cell, str)]
            yield dict(zip(heads, cells, strict=True))


def chart_of(page, name):
    return next(element for element in page.all() if element.attributes.get("data-chart") == name)


def test_every_chart_and_every_column_of_numbers_is_compared(page, answers):
    drawn = {element.attributes["data-chart"] for element in page.all() if "data-chart" in element.attributes}
    assert drawn == {*DRAWN, *LINES, *OTHERS} - {"incidents"}
    assert set(answers) == drawn | {"incidents"}
    statements = {path.name.removesuffix(".sql") for path in files("pipeline.report").joinpath("sql").iterdir()}
    assert statements - RANK == set(answers)
    for name, columns in DRAWN.items():
        heads = chart_of(page, name).one("table", class_="rows").one("thead").all("th", class_="n")
        assert {head.text for head in heads} == set(columns), name


@pytest.mark.parametrize("name", sorted(set(DRAWN) - {"causes"}))
def test_a_chart_draws_the_numbers_of_its_table(name, page, answers):
    rows = answers[name]
    total = sum(row.get("size_bytes") or 0 for row in rows)
    drawn = list(drawn_rows(chart_of(page, name)))
    assert len(drawn) == len(rows) > 0
    compared = set()
    for texts, row in zip(drawn, rows, strict=True):
        for column, values in DRAWN[name].items():
            expected = values(row | {"all_bytes": total})
            found = read_numbers(texts[column])
            if expected and len(found) == 1:
                expected = expected[:1]  # a range that is narrower than the digits shown
            assert len(found) == len(expected), (column, texts[column], row)
            for (value, off), real in zip(found, expected, strict=True):
                assert value == pytest.approx(real, rel=1e-5, abs=off), (column, texts[column], row)
                compared.add(column)
    assert compared == set(DRAWN[name]) - {"age of newest"}


def test_the_causes_are_those_of_the_broker_shown(page, answers):
    (row,) = [row for row in answers["causes"] if row["broker_id"] == 1]
    names = {
        "fair share": "expected_share", "leaders": "leaders_term", "topic mix": "topic_mix_term",
        "partition skew": "partition_skew_term", "· heavy keys": "heavy_keys_term", "· hash luck": "hash_luck_term",
        "· neither": "remainder_term", "its share": "share",
    }  # fmt: skip  # fields of a value, several a line
    drawn = {texts["term"]: texts["points"] for texts in drawn_rows(chart_of(page, "causes"))}
    assert set(drawn) == set(names)
    for term, text in drawn.items():
        ((value, off),) = read_numbers(text)
        percent = 1 if "%" in text else 0.01
        assert value * percent == pytest.approx(row[names[term]], abs=off * percent), term


def test_the_strip_has_every_window_with_its_verdicts(page, answers):
    titles = [mark.one("title").text for mark in chart_of(page, "verdicts").one("svg", class_="windows").all("rect")]
    expected = [
        {kind: int(row[kind]) for kind in ("fail", "blind", "warn", "not_enough_traffic", "ok") if row[kind]}
        for row in answers["verdicts"]
    ]
    found = [re.findall(r"(\d+) ([a-z ]+)", title.split(": ", 1)[1]) for title in titles]
    assert [{kind.replace(" ", "_"): int(count) for count, kind in window} for window in found] == expected
    starts = [row["window_start"][:16].replace("T", " ") for row in answers["verdicts"]]
    assert [title.split(" UTC")[0] for title in titles] == starts


def test_incidents_are_drawn_with_their_numbers(page, answers):
    bars = [bar.one("p").text for bar in chart_of(page, "verdicts").all("div", class_="incident")]
    assert len(bars) == len(answers["incidents"]) > 0
    for text, row in zip(bars, answers["incidents"], strict=True):
        assert text.startswith(f"{row['incident_id']}: {row['subject']} · {row['rule'].replace('_', ' ')}")
        assert row["since"][:16].replace("T", " ") in text
        assert f"at most {row['peak_value']:.2f}x" in text


def test_every_cell_of_the_heat_map_says_its_partitions_numbers(page, answers):
    cells = [cell.attributes["title"] for cell in chart_of(page, "partitions").all("i") if "title" in cell.attributes]
    by_name = {f"{row['topic']}-{row['partition']:.0f}": row for row in answers["partitions"]}
    assert {cell.split(":")[0] for cell in cells} == set(by_name)
    assert len(cells) == len(by_name)
    for cell in cells:
        name, said = cell.split(": ")
        (size, off), (leader, _), (ratio, _) = read_numbers(said)
        assert (leader, ratio) == (by_name[name]["leader_id"], by_name[name]["ratio_to_mean"])
        assert size == pytest.approx(by_name[name]["size_bytes"], abs=off)


@pytest.mark.parametrize("name", sorted(LINES))
def test_lines_are_as_high_as_their_numbers(name, page, answers):
    """One scale from nothing upwards holds for all points of all lines."""
    chart = chart_of(page, name)
    drawn = {path.one("title").text: path.attributes["d"] for path in chart.all("path", class_="line")}
    rows = answers[name]
    assert set(drawn) == {column.replace("_", " ") for column in rows[0] if column != "window_start"}
    scales = []
    for title, path in drawn.items():
        heights = [100 - float(place) for place in re.findall(r"[ML][\d.]+ ([\d.]+)", path)][1:]
        values = [row[title.replace(" ", "_")] for row in rows]
        assert len(heights) == len(values) > 1
        scales += [height / value for height, value in zip(heights, values, strict=True)]
    assert scales == pytest.approx([scales[0]] * len(scales), rel=1e-3)


def test_producers_that_wait_are_counted_among_those_that_are_shown():
    """The statement gives the twenty that wait longest: of three hundred that a quota delays it seemed to be all."""
    rows = [{"throttle_time_ms": 5.0, "buffer_blocked_ratio": 0.0}] * 20
    assert WAITING.says(rows) == "Of these 20 producers 20 are throttled by a quota, 0 wait for buffer memory."
