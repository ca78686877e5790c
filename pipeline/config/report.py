"""The configuration's section `report`: the HTML report that every run of `health` writes."""

import hashlib
from datetime import timedelta

from pydantic import Field

from pipeline.config.section import ConfigPath, Duration, Section
from pipeline.model.number_text import format_slug


class Report(Section):
    """The report.

    Attributes:
        folder: Where reports are written; `reports` in the warehouse by default.
        base_url: Address under which a web server of yours shows that folder, for links in mails; without it mails name the
            file.
        period: How far back a report looks from its newest window.
        keep: How long reports are kept after their newest window.
    """

    folder: ConfigPath | None = None
    base_url: str | None = Field(None, pattern=r"^https?://[^\s\"'<>]+$")
    period: Duration = timedelta(days=7)
    keep: Duration = timedelta(days=30)


def cluster_slug(cluster: str) -> str:
    """Returns a cluster's name as part of a file name; a digest distinguishes similar names."""
    slug = format_slug(cluster)
    digest = "" if slug == cluster else f"-{hashlib.blake2b(cluster.encode(), digest_size=3).hexdigest()}"
    return f"{slug}{digest}"


def report_name(cluster: str, window: str) -> str:
    """Returns the file name of a report."""
    return f"{cluster_slug(cluster)}-{window}.html"
