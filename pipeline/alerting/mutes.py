"""Mutes and their ends: a file that people and `partition-health mute` write."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import yaml
from pydantic import Field

from pipeline.config.section import Instant, Section, write_instant
from pipeline.config.yaml_file import find_yaml
from pipeline.files import replace_file
from pipeline.model.incident import IncidentChange
from pipeline.model.window import instant_of


class Mute(Section):
    """Changes that are not reported.

    An incident that is still open when its mute ends is reported with its next change, `continuing` at the latest.
    """

    until: Instant
    """ISO 8601 instant or date, UTC where it has no offset; windows that start before it are muted."""
    cluster: str = "*"
    """Pattern such as `prod-*`."""
    incident: str = "*"
    """Pattern of incident ids."""
    rule: str = "*"
    """Pattern of rules."""
    subject: str = "*"
    """Pattern of subjects, such as `broker 4`."""
    reason: str = Field("", max_length=500)
    """Why, for those who ask later."""

    def fits(self, at_ms: int, cluster: str, rule: str, subject: str, incident_ids: Sequence[str]) -> bool:
        names, patterns = (cluster, rule, subject), (self.cluster, self.rule, self.subject)
        return (
            instant_of(at_ms) < self.until
            and all(fnmatchcase(name, pattern) for name, pattern in zip(names, patterns, strict=True))
            and any(fnmatchcase(name, self.incident) for name in incident_ids)
        )

    def describe(self) -> str:
        return f"muted until {write_instant(self.until)}{f': {self.reason}' if self.reason else ''}"


def read_mutes(path: Path) -> tuple[Mute, ...]:
    document = find_yaml(path)
    return () if document is None or document.value is None else document.validate(tuple[Mute, ...])


def write_mutes(path: Path, mutes: Sequence[Mute]) -> None:
    text = yaml.safe_dump([one.model_dump(exclude_defaults=True) for one in mutes], sort_keys=False, allow_unicode=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode() if mutes else b"")


def find_mute(mutes: Sequence[Mute], cluster: str, change: IncidentChange, merged: Sequence[str] = ()) -> Mute | None:
    """The mute of a change that lasts longest; one of an incident goes on for the one that it was `merged` into."""
    of_change = (change.window_start_ms, cluster, change.rule, change.subject, (change.incident_id, *merged))
    return max((mute for mute in mutes if mute.fits(*of_change)), key=lambda mute: mute.until, default=None)
