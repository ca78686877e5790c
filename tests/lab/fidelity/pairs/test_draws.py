"""What a seed draws, and how a draw goes on. Oracle: the same draw again, and files made up."""

import json
import subprocess

import numpy as np
import pytest

from tests.lab.fidelity.arrivals import Series
from tests.lab.fidelity.pairs.draw import SIGHT, TALLY, judge_again, open_part, sum_parts
from tests.lab.fidelity.pairs.law import MOST_PER_S, PATTERNS, draw_round
from tests.lab.fidelity.pairs.pair import AFTER, BEFORE, ENDING, decode_pair, draw_pairs, encode_pair
from tests.lab.process import LabError


def test_a_seed_draws_the_same_pairs_again():
    """Of every kind one, in both directions; they survive JSON."""
    pairs = draw_pairs(5)

    assert pairs == draw_pairs(5) != draw_pairs(6)
    assert [pair.name.removesuffix("-old-new").removesuffix("-new-old") for pair in pairs] == [
        "slow-broker", "bursts", "uneven", "keyed-mix", "two-producers", "lz4", "keyed-librdkafka-java",
    ]  # fmt: skip  # names, several a line
    assert sum(pair.name.endswith("-old-new") for pair in pairs) == 3
    for pair in pairs:
        assert decode_pair(encode_pair(pair)) == pair
        assert len(pair.clients(BEFORE)) == len(pair.clients(AFTER)) == len(pair.traffic)


def test_any_round_of_a_blind_draw_can_be_drawn_again_by_itself():
    """Pairs of a round meet the same delays; over some rounds every kind of setting comes up."""
    rounds = [draw_round(7, number, 2) for number in range(40)]
    assert draw_round(7, 3, 2) == rounds[3] != draw_round(8, 3, 2)
    for one, other in rounds:
        assert one.delays == other.delays
        assert decode_pair(encode_pair(one)) == one
    pairs = [pair for both in rounds for pair in both]
    assert {pair.replicas for pair in pairs} == {1, 2, 3}
    assert {max(pair.leaders) for pair in pairs} == {2, 3, 4}
    assert {len(pair.traffic) for pair in pairs} == {1, 2, 3, 4}
    assert {pair.before[0].version for pair in pairs} == {"3.2.3", "3.9.1", "4.1.1", "4.4.0", "librdkafka"}
    assert {len({delay.broker for delay in pair.delays}) for pair in pairs} >= {0, 1, 2, 3}
    transactional = [
        client for pair in pairs for client in pair.before + pair.after if "transactional.id" in client.config
    ]
    assert transactional
    assert not any(client.version == "librdkafka" or "acks" in client.config for client in transactional)
    assert {series.pattern for pair in pairs for series in pair.traffic} == set(PATTERNS)
    assert all(sum(series.rate_per_s for series in pair.traffic) <= MOST_PER_S for pair in pairs)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("sizes", ["exponential", "lognormal", "two-humped"])
def test_a_series_keeps_its_rate_length_and_mean_size(pattern, sizes):
    series = Series(
        pattern, 2_000, 20, burst_records=20, mean_bytes=400, varied_bytes=True, sizes=sizes, burst_step_us=5
    )
    records = series.make()
    assert len(records) == 40_000
    assert (np.diff(records["due_ns"].astype(np.int64)) >= 0).all()
    assert records["due_ns"].max() == pytest.approx(20e9, rel=0.06)
    assert records["value_bytes"].mean() == pytest.approx(400, rel=0.15)


def test_a_draw_goes_on_with_its_seed_and_begins_another_part_once_the_product_changed(tmp_path, monkeypatch):
    def commit(text):
        (tmp_path / "pipeline/code.py").write_text(text)
        for words in (["add", "pipeline"], [*identity, "commit", "-q", "-m", text]):
            subprocess.run(["git", *words], check=True)

    def facts(part):
        return json.loads((part / "draw.json").read_text())

    def judge(part, held):
        (part / "recordings.json").write_text(json.dumps([{"side": side} for side in (BEFORE, AFTER, BEFORE)]))
        (part / TALLY).write_text(json.dumps({"held": held}))
        (part / SIGHT).write_text("seen")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline").mkdir()
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "init", "-q"], check=True)
    commit("one")
    draw = tmp_path / "draw"
    first = open_part(draw)
    assert open_part(draw) == first
    judge(first, [3, 4])
    second = open_part(draw)  # the product is the same, but what was judged stays as it is
    assert facts(second)["commit"] == facts(first)["commit"]
    assert facts(second)["seed"] != facts(first)["seed"]
    (tmp_path / "pipeline/code.py").write_text("two")
    with pytest.raises(LabError, match=r"not blind: not committed: pipeline/code\.py"):
        open_part(draw)
    commit("two")
    third = open_part(draw)
    assert [first.name, second.name, third.name] == ["00", "01", "02"]
    assert facts(third)["commit"] != facts(first)["commit"]
    judge(third, [1, 6])
    (second / f"draw-00-0-before{ENDING}").touch()
    told = sum_parts(draw)
    assert told.count("| never judged |") == 1
    assert [line.split("|")[5] for line in told.splitlines()[2:5]] == [" 2 ", " 1 ", " 2 "]
    assert [told.count(f"{held} figures hold") for held in ("3 of 4", "1 of 6", "4 of 10")] == [1, 1, 1]


def test_archives_are_judged_again_without_a_draw(tmp_path, monkeypatch):
    """Nothing is written, no part begun; a folder without archives is named."""
    judged = []
    monkeypatch.setattr(
        "tests.lab.fidelity.pairs.report.report_pairs", lambda *given, **named: judged.append((given, named))
    )
    with pytest.raises(LabError, match=f"{tmp_path}: no archive"):
        judge_again(tmp_path, 10)
    (tmp_path / f"draw-00-0-before{ENDING}").touch()
    judge_again(tmp_path, 10, ["draw-00-0"])

    assert judged == [((tmp_path, ["draw-00-0"]), {"seeds": 10})]
    assert [file.name for file in tmp_path.iterdir()] == [f"draw-00-0-before{ENDING}"]
