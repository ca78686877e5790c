"""What a mail says of promises. Oracle: the texts as written here."""

from dataclasses import replace

from pipeline.alerting.incident_mail import describe_broker_share, promises_section
from tests.unit.alerting.examples import MINUTE_MS, T0_MS, new_evidence, new_promise, resolved_evidence

TITLE = "Earlier advice, and its result"
KEPT = new_promise()
LEFT = new_promise(
    action="move_leaders", topic="", rank=2, title="hand over leadership of 3 partitions", carried_out_ms=None,
    carried_out_ratio=0.0, corrected_ratio=None, corrected_ratio_low=None, corrected_ratio_high=None,
    predicted_ratio=1.2, predicted_ratio_low=1.2, predicted_ratio_high=1.2,
    outcome="not_carried_out", reason="no part of it was done",
)  # fmt: skip  # fields of a value, several a line


def test_what_was_done_is_told_with_what_was_said_and_what_it_is():
    assert promises_section([KEPT, LEFT], is_open=False).text == (
        "Done by the end of the window from 2026-11-21 09:07 UTC: set `linger.ms=5` on producers of orders. "
        "Advice of 2026-11-21 09:06 UTC predicted 34.9 % [34.4, 35.6]; the share is 35.1 %, and would be "
        "56.0 % without the action. Kept: the share is as predicted.",
        "Not carried out: hand over leadership of 3 partitions; advice of 2026-11-21 09:06 UTC predicted 40.0 %.",
    )


def test_a_prediction_that_the_traffic_moved_is_said_as_it_is_now():
    """0.9 of a third is 30 %."""
    moved = replace(KEPT, corrected_ratio=0.9, corrected_ratio_low=0.84, corrected_ratio_high=0.96)
    (said,) = promises_section([moved], is_open=False).text
    assert (
        "UTC predicted 34.9 % [34.4, 35.6], which is 30.0 % [28.0, 32.0] on the present traffic; the share is 35.1 %"
        in said
    )


def test_a_promise_is_told_as_last_decided():
    """Later windows may abstain; those before it was decided did."""
    rows = [
        replace(KEPT, window_start_ms=T0_MS + 7 * MINUTE_MS, outcome="unknown", reason="within this window"),
        KEPT,
        replace(KEPT, window_start_ms=T0_MS + 9 * MINUTE_MS, outcome="unknown", reason="leaders moved too"),
    ]
    assert "Kept: " in promises_section(rows[::-1], is_open=False).text[0]
    assert "Unknown: " in promises_section(rows[:1], is_open=False).text[0]
    broken = replace(KEPT, window_start_ms=T0_MS + 9 * MINUTE_MS, outcome="broken", actual_ratio=1.5)
    (said,) = promises_section([*rows, broken], is_open=False).text
    assert "the share is 50.0 %" in said
    assert "Broken: " in said


def test_advice_that_came_again_and_was_done_then_is_no_advice_left_alone():
    again = replace(LEFT, action=KEPT.action, topic=KEPT.topic, promised_ms=T0_MS + 5 * MINUTE_MS)
    assert len(promises_section([again, KEPT], is_open=False).text) == 1


def test_while_the_incident_is_open_only_what_was_done_is_told():
    assert ["Kept: " in text for text in promises_section([KEPT, LEFT], is_open=True).text] == [True]
    assert promises_section([LEFT], is_open=True) is None
    assert promises_section([], is_open=False) is None


def test_both_mails_have_the_section_where_there_are_promises():
    for evidence in (new_evidence(promises=(KEPT,)), resolved_evidence(promises=(KEPT, LEFT))):
        assert TITLE in [section.title for section in describe_broker_share(evidence).sections]
    assert TITLE not in [section.title for section in describe_broker_share(resolved_evidence()).sections]
