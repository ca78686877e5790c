"""A table by broker and window for tests of storage."""

from pipeline.tables import Column, Table
from pipeline.tables.table import CLUSTER, RUN_ID, WINDOW_DATE, WINDOW_START


def loads_table(*columns: Column) -> Table:
    """`silver.loads` with further columns."""
    return Table(
        name="silver.loads",
        grain="broker x window",
        key=("cluster", "window_start", "broker_id"),
        partitioned_by=("cluster", "window_date"),
        columns=(
            CLUSTER,
            WINDOW_DATE,
            WINDOW_START,
            Column(name="broker_id", type="bigint", nullable=False, doc="Broker."),
            *columns,
            RUN_ID,
        ),
    )
