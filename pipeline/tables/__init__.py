"""The declared tables: one value per table, read by storage, gates, docs and tests."""

from pipeline.tables.broker_metrics import BROKER_TABLES
from pipeline.tables.bronze import BRONZE
from pipeline.tables.gold import BROKER_SHARE, GOLD, VERDICTS, ZONE_TRAFFIC
from pipeline.tables.health import HEALTH
from pipeline.tables.incidents import ALERTING
from pipeline.tables.keys import KEYS
from pipeline.tables.replay import REPLAY
from pipeline.tables.silver import ARRIVALS, SESSIONS, SILVER
from pipeline.tables.table import Column, Table

TABLES: tuple[Table, ...] = (*BRONZE, *SILVER, *BROKER_TABLES, *KEYS, ARRIVALS, *SESSIONS, *GOLD, *HEALTH, ZONE_TRAFFIC, *ALERTING, *REPLAY)

KEPT = (BROKER_SHARE, VERDICTS, *ALERTING)
"""No retention drops rows of these: an incident stands on them for as long as it is open, however long that is."""

__all__ = ["BRONZE", "GOLD", "KEPT", "SILVER", "TABLES", "Column", "Table"]
