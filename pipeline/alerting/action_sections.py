"""What to do about a hot broker, in a mail: the ranked table, how to carry it out, and the files to do it with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.alerting.content import Attachment, Column, Section, Table
from pipeline.model.number_text import format_bytes, format_percent, format_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.model.recommendation import Recommendation

MOST_ACTIONS = 5
_MOST_TOLD = 3
_EVEN = 0.005


def actions_section(recommendations: Sequence[Recommendation], *, expected_share: float) -> Section | None:
    """Actions by rank with the share they are predicted to bring, and their cost; None without any.

    Args:
        recommendations: Of one broker and window, by rank.
        expected_share: The broker's fair share, 0..1.
    """
    shown = recommendations[:MOST_ACTIONS]
    if not shown:
        return None
    columns = (
        Column(title="", is_number=True),
        Column(title="action"),
        Column(title="share after", is_number=True),
        Column(title="ratio", is_number=True),
        Column(title="copies", is_number=True),
    )
    rows = tuple(
        (
            f"{row.rank}.",
            row.title.replace("`", ""),
            format_predicted(row, expected_share),
            format_ratio(row.predicted_ratio),
            format_bytes(row.moved_bytes) if row.moved_bytes else "nothing",
        )
        for row in shown
    )
    enough = frozenset(place for place, row in enumerate(shown) if row.is_enough)
    first = shown[0]
    told = [row for row in shown if row is first or row.moved_bytes or not row.is_enough][:_MOST_TOLD]
    return Section(
        title="What to do",
        text=tuple(f"{row.rank}. {_sentence(row.title)}. {row.text}" for row in told),
        table=Table(
            columns=columns,
            rows=rows,
            marked=enough if len(enough) < len(shown) else frozenset({0}),
            note=f"{_say_enough(len(enough), len(shown))} Shares are those of this window's traffic{_say_files(shown)}.",
        ),
    )


def _sentence(title: str) -> str:
    return title[:1].upper() + title[1:]


def _say_enough(enough_count: int, count: int) -> str:
    if not enough_count:
        return "None of these alone is enough."
    if enough_count < count:
        return "Marked: enough to resolve the incident."
    return "Each of these alone is enough to resolve the incident." if count > 1 else "Enough to resolve the incident."


def _say_files(shown: Sequence[Recommendation]) -> str:
    return "; the producers' settings are attached" if any(row.config_diff is not None for row in shown) else ""


def format_predicted(recommendation: Recommendation, expected_share: float) -> str:
    """Predicted share, and its range where chance or unknown keys leave one.

    Args:
        recommendation: The action.
        expected_share: The broker's fair share, 0..1.
    """
    low, high = recommendation.predicted_ratio_low, recommendation.predicted_ratio_high
    share, least, most = (
        format_percent(ratio * expected_share, 1) for ratio in (recommendation.predicted_ratio, low, high)
    )
    bounds = f" [{least.removesuffix(' %')}, {most.removesuffix(' %')}]"
    return f"{share}{bounds}" if high - low > _EVEN else share


def execute_section(recommendations: Sequence[Recommendation]) -> Section | None:
    """How to carry out the first plan that comes with files; None without one.

    Args:
        recommendations: Of one broker and window, by rank.
    """
    plan = _first_plan(recommendations)
    if plan is None:
        return None
    server = "--bootstrap-server $BOOTSTRAP"
    lines = []
    if plan.reassignment_json is not None:
        lines += [
            f"kafka-reassign-partitions {server} --reassignment-json-file reassignment.json --execute",
            f"kafka-reassign-partitions {server} --reassignment-json-file reassignment.json --verify",
        ]
    lines.append(f"kafka-leader-election {server} --election-type preferred --path-to-json-file election.json")
    back = " `rollback.json` is the assignment as it is now." if plan.rollback_json is not None else ""
    return Section(
        title=f"How to do {plan.rank}.: {plan.title}",
        text=(f"With the files attached; repeat `--verify` until it reports all as complete.{back}",),
        code="\n".join(lines),
    )


def action_attachments(recommendations: Sequence[Recommendation]) -> tuple[Attachment, ...]:
    """Files of the first plan and of the first change of producers: reassignment, election, the way back, settings.

    Args:
        recommendations: Of one broker and window, by rank.
    """
    plan = _first_plan(recommendations)
    files: dict[str, str | None] = {}
    if plan is not None:
        files = {
            "reassignment.json": plan.reassignment_json,
            "election.json": plan.election_json,
            "rollback.json": plan.rollback_json,
        }
    found = [Attachment(name=name, subtype="json", text=text) for name, text in files.items() if text is not None]
    shown = recommendations[:MOST_ACTIONS]
    diffs = [row.config_diff for row in shown if row.config_diff is not None]
    if diffs:
        found.append(Attachment(name="producer-config.diff", subtype="plain", text="\n".join(diffs)))
    return tuple(found)


def _first_plan(recommendations: Sequence[Recommendation]) -> Recommendation | None:
    return next((row for row in recommendations if row.election_json is not None), None)
