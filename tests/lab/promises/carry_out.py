"""Carries out an action of a mail as it stands there: by Kafka's tools and the attached files, or on the producers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.lab.artifacts import BROKER_VERSION
from tests.lab.process import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from tests.lab.promises.bed import Bed

PLAN_FILES = ("reassignment.json", "election.json", "rollback.json")
_SPLIT = {"heavy": 0.0}  # the records of the heavy key get one of all keys


def carry_out(bed: Bed, action: dict[str, Any], folder: Path, files: Mapping[str, str]) -> str:
    """Carries out a row of `gold.recommendations`; says what was done.

    `files`: the plan's, by name.

    Raises:
        LabError: the laboratory does not know how.
    """
    kind, topic = action["action"], action["topic"]
    if kind == "check_broker":
        broker = int(action["subject"].removeprefix("broker "))
        bed.slow(broker, 0)
        return f"broker {broker} answers at once"
    if action["election_json"] is not None:
        for name, text in files.items():
            (folder / name).write_text(text)
        bed.reassign(folder)
        return f"{action['title']}, by the plan's files"
    if kind == "rekey":
        bed.start(replace(bed.loads[topic], **_SPLIT))
        return f"the heavy key of {topic} is split"
    if more := re.search(r"^give \S+ (\d+) partitions", action["title"]):
        bed.cluster.run_tool("kafka-topics", "--alter", "--topic", topic, "--partitions", more[1])
        return f"{topic} has {more[1]} partitions"
    if action["config_diff"] is None and "client" not in action["title"]:
        raise LabError(f"not known how to do: {action['title']}")
    load = bed.loads[topic]
    settings = dict(load.settings) | dict(re.findall(r"^\+(?!\+\+)([a-z.]+)=(.*)$", action["config_diff"] or "", re.M))
    version = BROKER_VERSION if "upgrade producers" in action["title"] else load.version
    bed.start(replace(load, settings=settings, version=version))
    said = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"producers of {topic} start anew: client {version}{', ' if said else ''}{said}"
