"""The mail's advice on a hot broker: the ranked table, the commands, and the files for them."""

from collections.abc import Sequence

from pipeline.alerting.content import Attachment, MailColumn, MailSection, MailTable, number_columns
from pipeline.model.number_text import format_bytes, format_percent, format_ratio
from pipeline.model.recommendation import Recommendation

MOST_ACTIONS = 5
_MOST_EXPLAINED = 3
NOT_PREDICTED = "not predicted"
_EVEN = 0.005  # a predicted range narrower than this is shown as one number


def actions_section(recommendations: Sequence[Recommendation], *, expected_share: float) -> MailSection | None:
    """Actions by rank with the share they are predicted to bring, and their cost; None without any."""
    shown = recommendations[:MOST_ACTIONS]
    if not shown:
        return None
    rows = tuple(
        (
            f"{row.rank}.",
            row.title.replace("`", ""),
            format_predicted(row, expected_share),
            "" if row.predicted_ratio is None else format_ratio(row.predicted_ratio),
            format_bytes(row.moved_bytes) if row.moved_bytes else "nothing",
        )
        for row in shown
    )
    enough = frozenset(at for at, row in enumerate(shown) if row.is_enough)
    if not enough:
        open_ = any(row.predicted_ratio is None for row in shown)
        verdict = "None of these alone is known to be enough." if open_ else "None of these alone is enough."
    elif len(enough) < len(shown):
        verdict = "Marked: enough to resolve the incident."
    else:
        verdict = f"{'Each of these alone is enough' if len(shown) > 1 else 'Enough'} to resolve the incident."
    files = "; the producers' settings are attached" if any(row.config_diff is not None for row in shown) else ""
    return MailSection(
        title="What to do",
        text=tuple(
            f"{row.rank}. {row.title[:1].upper()}{row.title[1:]}. {row.text}" for row in shown[:_MOST_EXPLAINED]
        ),
        table=MailTable(
            columns=(*number_columns(""), MailColumn("action"), *number_columns("share after", "ratio", "copies")),
            rows=rows,
            marked=enough if len(enough) < len(shown) else frozenset({0}),
            note=f"{verdict} Shares are those of this window's traffic{files}.",
        ),
    )


def format_predicted(recommendation: Recommendation, expected_share: float, *, with_range: bool = True) -> str:
    """Predicted share, and its range where chance or unknown keys leave one and it is wanted."""
    ratio, low, high = (
        recommendation.predicted_ratio,
        recommendation.predicted_ratio_low,
        recommendation.predicted_ratio_high,
    )
    if ratio is None or low is None or high is None:
        return NOT_PREDICTED
    share, least, most = (format_percent(one * expected_share, 1) for one in (ratio, low, high))
    return (
        f"{share} [{least.removesuffix(' %')}, {most.removesuffix(' %')}]"
        if with_range and high - low > _EVEN
        else share
    )


def execute_section(recommendations: Sequence[Recommendation]) -> MailSection | None:
    """How to carry out the first plan that comes with files; None without one."""
    plan = _first_plan(recommendations)
    if plan is None:
        return None
    reassign = "kafka-reassign-partitions --bootstrap-server $BOOTSTRAP --reassignment-json-file reassignment.json"
    elect = "kafka-leader-election --bootstrap-server $BOOTSTRAP --election-type preferred"
    moves = [f"{reassign} --execute", f"{reassign} --verify"] if plan.reassignment_json is not None else []
    back = " `rollback.json` is the assignment as it is now." if plan.rollback_json is not None else ""
    return MailSection(
        title=f"How to do {plan.rank}.: {plan.title}",
        text=(f"With the files attached; repeat `--verify` until it reports all as complete.{back}",),
        code="\n".join([*moves, f"{elect} --path-to-json-file election.json"]),
    )


def action_attachments(recommendations: Sequence[Recommendation]) -> tuple[Attachment, ...]:
    """Files of the first plan and of the first change of producers: reassignment, election, the way back, settings."""
    plan = _first_plan(recommendations)
    names = ("reassignment_json", "election_json", "rollback_json")
    found = [
        Attachment(name=name.replace("_json", ".json"), subtype="json", text=text)
        for name in names
        if plan is not None and (text := getattr(plan, name)) is not None
    ]
    diffs = [row.config_diff for row in recommendations[:MOST_ACTIONS] if row.config_diff is not None]
    if diffs:
        found.append(Attachment(name="producer-config.diff", subtype="plain", text="\n".join(diffs)))
    return tuple(found)


def _first_plan(recommendations: Sequence[Recommendation]) -> Recommendation | None:
    return next((row for row in recommendations if row.election_json is not None), None)
