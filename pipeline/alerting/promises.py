"""Mail section on earlier advice: promised and actual share, and advice not carried out."""

from collections.abc import Sequence

from pipeline.alerting.content import MailSection
from pipeline.model.number_text import format_clock, format_percent
from pipeline.model.promise import Promise

MOST_PROMISES = 8
_EVEN = 0.005  # a range narrower than this is shown as one number
_OTHER_POINTS = 1.0  # a prediction that today's traffic moves by more is said as it is on that traffic, too


def promises_section(promises: Sequence[Promise], *, is_open: bool) -> MailSection | None:
    """Describes advice carried out, promised and actual share; other advice only once the incident is over.

    `promises`: rows of the incident's windows.
    """
    done, left = _newest(promises)
    said = [_describe(promise) for promise in done]
    if not is_open:
        said += [f"Not carried out: {promise.title}; we said {_predicted(promise)}." for promise in left]
    return (
        MailSection(title="What was promised, and what came of it", text=tuple(said[:MOST_PROMISES])) if said else None
    )


def _newest(promises: Sequence[Promise]) -> tuple[list[Promise], list[Promise]]:
    """Chooses promises carried out, each as last decided or last seen, and the newest of each other kind."""
    done: dict[object, Promise] = {}
    left: dict[object, Promise] = {}
    for one in sorted(promises, key=lambda one: (one.window_start_ms, one.promised_ms)):
        if one.carried_out_ms is None:
            left[one.action, one.topic] = one
        elif one.is_decided or not (one.key in done and done[one.key].is_decided):
            done[one.key] = one
    kinds = {(one.action, one.topic) for one in done.values()}
    return (
        sorted(done.values(), key=lambda one: (one.carried_out_ms or 0, one.rank)),
        sorted((one for kind, one in left.items() if kind not in kinds), key=lambda one: one.rank),
    )


def _describe(promise: Promise) -> str:
    said = f"Done by the end of the window from {format_clock(promise.carried_out_ms or 0)}: {promise.title}."
    if promise.actual_ratio is not None:
        said += f" We said {_predicted(promise) or 'nothing of what it brings'}"
        moved = abs((promise.corrected_ratio or 0.0) - (promise.predicted_ratio or 0.0)) * promise.expected_share * 100
        if promise.corrected_ratio is not None and moved > _OTHER_POINTS:
            said += f", which is {_corrected(promise)} on the traffic as it is now"
        said += f"; it is {_format_share(promise, promise.actual_ratio)}"
        said += (
            f", and would be {_format_share(promise, promise.without_ratio)} without." if promise.without_ratio else "."
        )
    outcome = promise.outcome.replace("_", " ")
    return f"{said} {outcome[:1].upper()}{outcome[1:]}: {promise.reason}."


def _predicted(one: Promise) -> str:
    return _format_range(one, one.predicted_ratio_low, one.predicted_ratio, one.predicted_ratio_high)


def _corrected(one: Promise) -> str:
    return _format_range(one, one.corrected_ratio_low, one.corrected_ratio, one.corrected_ratio_high)


def _format_share(promise: Promise, ratio: float | None) -> str:
    return "" if ratio is None else format_percent(ratio * promise.expected_share, 1)


def _format_range(promise: Promise, low: float | None, ratio: float | None, high: float | None) -> str:
    if low is None or high is None or high - low <= _EVEN:
        return _format_share(promise, ratio)
    least, most = (_format_share(promise, end).removesuffix(" %") for end in (low, high))
    return f"{_format_share(promise, ratio)} [{least}, {most}]"
