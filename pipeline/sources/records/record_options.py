"""What a scan of records is told through Spark's options: which windows, and what is stored about keys.

The secret is no option: options are shown in Spark's plans. A reader takes it up on the driver, and carries it to the
executors among its pickled fields.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.environment import environment_secret
from pipeline.model.window import TimeWindow
from pipeline.sources.records.key_secret import ensure_secret, read_secret
from pipeline.sources.records.record_scan import RecordScanSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline.codec.records.key_ids import KeySecret
    from pipeline.runs import RunContext

PSEUDONYMOUS, COUNTS_ONLY = "pseudonymous", "counts_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """What the options say.

    Attributes:
        scan: Which windows.
        secret: Behind the ids of keys; None where none are stored.
        clear_topics: Topics whose keys are stored in clear.
    """

    scan: RecordScanSettings
    secret: KeySecret | None
    clear_topics: frozenset[str]


def record_options(run: RunContext) -> dict[str, str]:
    """Options that say which windows, and what is stored about keys.

    Args:
        run: Says both.

    Raises:
        ConfigError: The secret cannot be made or read.
    """
    keys = run.config.keys
    options = {
        "as_of_ms": str(run.as_of_ms),
        "start_ms": str(run.span.start_ms),
        "end_ms": str(run.span.end_ms),
        "window_ms": str(run.window_ms),
        "mode": keys.mode,
        "clear_topics": json.dumps(keys.clear_topics.get(run.cluster_name, ())),
        "secret_path": str(keys.secret),
    }
    if keys.secret_variable is not None:
        options["secret_variable"] = keys.secret_variable
    elif keys.mode == PSEUDONYMOUS:
        ensure_secret(keys.secret)
    _take_secret(options)  # fails here, before Spark works
    return options


def read_record_options(options: Mapping[str, str]) -> RecordOptions:
    """What the options say, with the secret taken up: on the driver.

    Raises:
        ConfigError: There is no secret.
    """
    return RecordOptions(
        scan=RecordScanSettings(
            as_of_ms=int(options["as_of_ms"]),
            span=TimeWindow(int(options["start_ms"]), int(options["end_ms"])),
            window_ms=int(options["window_ms"]),
        ),
        secret=_take_secret(options),
        clear_topics=frozenset(json.loads(options["clear_topics"])),
    )


def _take_secret(options: Mapping[str, str]) -> KeySecret | None:
    if options["mode"] != PSEUDONYMOUS:
        return None
    return read_secret(Path(options["secret_path"]), environment_secret(options.get("secret_variable")))
