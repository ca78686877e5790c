"""How long rows are kept: the configuration's `retention`, by table or layer."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator

from pipeline.config.section import Duration, WrongValuesError, suggest
from pipeline.tables import KEPT, TABLES, Table
from pipeline.tables.keys import EXPIRING, KEY_TRAFFIC
from pipeline.tables.silver import ARRIVALS, RECORD_BATCHES

LEAST_RETENTION = timedelta(days=31)
"""As far back as jobs take up windows by themselves."""
SUMMED_UP = (RECORD_BATCHES, ARRIVALS, KEY_TRAFFIC)
"""What grows with records and keys, beside hashes of keys; replay and health read them once, for the window's sums."""
_NAMES = {table.name for table in TABLES} - {table.name for table in (*KEPT, *EXPIRING)}


def _check(retention: Mapping[str, timedelta]) -> Mapping[str, timedelta]:
    known = sorted({table.layer for table in TABLES}) + sorted(_NAMES)
    wrong = []
    for name, kept in retention.items():
        if name not in known:
            wrong.append(((name,), f"no layer and no table that may lose rows; {suggest(name, known)}"))
        elif kept < LEAST_RETENTION:
            wrong.append(((name,), f"runs read up to {LEAST_RETENTION.days} days of history; keep that much or more"))
    if wrong:
        raise WrongValuesError(*wrong)
    return retention


Retention = Annotated[dict[str, Duration], AfterValidator(_check)]


def retention_of(retention: Mapping[str, timedelta], table: Table) -> timedelta | None:
    """How long a table's rows are kept: its own entry, or its layer's; None is for ever."""
    if table.name not in _NAMES:
        return None
    return retention.get(table.name) or retention.get(table.layer)
