"""Carries out an action of a mail as it stands there: by Kafka's tools and the attached files, or on the producers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.lab.artifacts import BROKER_VERSION
from tests.lab.process import LabError
from tests.mail_parts import attached

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path
    from typing import Any

    from tests.lab.promises.bed import Bed

_SPLIT = {"heavy": 0.0}  # the records of the heavy key get one of all keys


def carry_out(bed: Bed, mail: EmailMessage, action: dict[str, Any], folder: Path) -> str:
    """Carries out a row of `gold.recommendations` that a mail holds; says what was done.

    Raises:
        LabError: the laboratory does not know how.
    """
    kind, topic = action["action"], action["topic"]
    if kind == "check_broker":
        broker = int(action["subject"].removeprefix("broker "))
        bed.slow(broker, 0)
        return f"broker {broker} answers at once"
    if action["election_json"] is not None:
        for name in ("reassignment.json", "election.json", "rollback.json"):
            if any(part.get_filename() == name for part in mail.iter_attachments()):
                (folder / name).write_text(attached(mail, name))
        bed.reassign(folder)
        return f"{action['title']}, by the files of the mail"
    if kind == "rekey":
        bed.start(replace(bed.loads[topic], **_SPLIT))
        return f"the heavy key of {topic} is split"
    if action["config_diff"] is None and "client" not in action["title"]:
        raise LabError(f"not known how to do: {action['title']}")
    load = bed.loads[topic]
    settings = dict(load.settings) | dict(re.findall(r"^\+(?!\+\+)([a-z.]+)=(.*)$", action["config_diff"] or "", re.M))
    version = BROKER_VERSION if "upgrade producers" in action["title"] else load.version
    bed.start(replace(load, settings=settings, version=version))
    said = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"producers of {topic} start anew: client {version}{', ' if said else ''}{said}"
