"""What to say of metrics whose names are not known, for `doctor`."""

from collections.abc import Collection, Iterator

from pipeline.codec.metrics.metric_names import list_unknown
from pipeline.sources.questions import Finding, name_some


def find_unknown_names(exposed_names: Collection[str]) -> Iterator[Finding]:
    """A finding about names that resemble a metric which none of the names gives; none where there are none."""
    unknown = list_unknown(exposed_names)
    if unknown:
        named = name_some("not known", [f"{name} (nearest: {nearest})" for name, nearest, _ in unknown])
        _, _, canonical = unknown[0]
        advice = f"where one is the same, a `prometheus` source takes it under `queries`, such as {canonical}: {unknown[0][0]}"
        yield Finding(name="metrics", is_ok=True, found=named, advice=advice)
