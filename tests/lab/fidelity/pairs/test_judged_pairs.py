"""What pieces of calibration buy, and what a change of the code breaks, counted on figures made up."""

import dataclasses

import pytest

from pipeline.calibration.service import latency_fit
from tests.lab.fidelity.pairs.ablation import Kept, compare_verdicts, count_shares, format_pieces
from tests.lab.fidelity.pairs.compare import RIGHT_WAY, WRONG_WAY
from tests.lab.fidelity.pairs.judged import Judged
from tests.lab.fidelity.pairs.lane import format_answers, format_fit, judge_answers, list_worse, sum_verdicts
from tests.lab.fidelity.pairs.pieces import NOTHING, PIECES

SHARE = Judged(
    of="pairs a before change", is_back_test=False, figure="bytes on broker 0, %", before=40.0, real=34.0, median=35.0,
    low=33.0, high=37.0, holds=True, way=RIGHT_WAY, is_claimed=True, is_trusted=True, by_keys=False,
)  # fmt: skip
FAR = dataclasses.replace(SHARE, median=40.5, low=40.0, high=41.0, holds=False, way=WRONG_WAY)
BATCHES = dataclasses.replace(
    SHARE, figure="records per batch", before=9.0, real=10.0, median=10.5, low=9.0, high=11.0, way=""
)


def test_a_piece_is_off_within_its_block_alone():
    """The function that it replaces is another one, and the same again afterwards."""
    (piece,) = (piece for piece in PIECES if piece.name == "delays-from-batches")
    before = latency_fit.fit_batches
    with piece.switched_off():
        assert latency_fit.fit_batches([], {1: "model"}, [1], 0, 0) == {1: "model"}
    assert latency_fit.fit_batches is before


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.name)
def test_every_piece_is_there_to_be_switched_off(piece):
    """What it replaces exists: a name that is gone would switch nothing off and buy nothing."""
    with piece.switched_off():
        assert all(vars(owner)[name] is stand_in for owner, name, stand_in in piece.stand_ins)
    assert (piece.line_count > 0) == bool(piece.code)


def test_shares_are_counted_by_place_client_and_change():
    """A broker's under another client, which moved by six points: near with all pieces, far without one."""
    assert count_shares([SHARE, BATCHES])[:2] == ["1 of 1 (1.00)", "1 of 1 (1.00)"]
    assert count_shares([FAR])[:3] == ["0 of 1 (6.50)", "0 of 1 (6.50)", "0"]
    assert count_shares([FAR])[-4:] == ["0 of 1", "0 of 1", "0 of 1", "0 of 0"]


def test_a_piece_is_held_against_all_of_them_over_what_both_judged():
    """A recording that one of the states lacks is left out."""
    of_other = dataclasses.replace(SHARE, of="pairs b before change")
    whole = Kept({row.key: row for row in (SHARE, BATCHES, of_other)}, {"a": 1.0, "b": 1.0})
    without = Kept({row.key: row for row in (FAR, BATCHES)}, {"a": 0.4})
    text = format_pieces({NOTHING: whole, "refinement": without})

    assert text.startswith("1 recordings, 2 figures")
    assert [line.split(" | ")[-3:-1] for line in text.splitlines()[-2:]] == [["0 / 0", "1"], ["1 / 0", "0"]]
    assert compare_verdicts([SHARE, FAR], [FAR, SHARE]) == (1, 1)


def test_each_answer_has_its_own_trust():
    """One share of two, trusted, is near, that of the busiest broker; the direction is right and not trusted."""
    wrong = dataclasses.replace(BATCHES, median=20.0, holds=False)
    other = dataclasses.replace(FAR, figure="bytes on broker 1, %", before=20.0)
    rows = [dataclasses.replace(row, is_direction_trusted=False) for row in (other, SHARE, wrong)]
    assert judge_answers(rows) == {
        "shares": [(SHARE.of, True, False)],
        "share of the busiest broker": [(SHARE.of, True, True)],
        "records per batch": [(SHARE.of, True, False)],
        "direction": [(SHARE.of, False, True)],
    }
    assert format_answers(judge_answers(rows)).splitlines()[3:5] == [
        "records per batch: 0 of 1 trusted answers are right (goal 98 %), 0 of 0 right ones are trusted (goal 80 %)",
        f"  trusted and wrong: {SHARE.of}",
    ]


def test_what_held_and_does_not_any_more_is_named():
    """So is a direction that turned, and a figure that nobody judges now; one that got better is not."""
    before = sum_verdicts([SHARE, BATCHES])
    assert list_worse(before, before) == []
    assert list_worse(before, sum_verdicts([FAR])) == [
        "  pairs a before change: bytes on broker 0, % held",
        "  pairs a before change: records per batch held",
        "  pairs a before change: bytes on broker 0, % went the right way",
    ]
    assert list_worse(sum_verdicts([FAR]), before) == []


def test_the_models_error_is_fitted_to_nine_of_ten_ranges():
    """Of ten shares one is further off than the others, which lie just within their ranges."""
    rows = [dataclasses.replace(SHARE, of=f"{n}", real=37.0, low=33.0, high=37.0) for n in range(9)] + [FAR]
    assert format_fit(rows) == "error of the model: shares: 9 of 10 in their ranges with 0.006, nine of ten with 0.006"
