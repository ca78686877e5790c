"""The health gate: is the cluster healthy? Its Checkpoint queues incidents, so that a gate's failure is what is mailed.

Light to import, like `expectations.gate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from expectations.gate import run_gate
from expectations.reports import SuiteReport
from pipeline.model.verdict import Verdict
from pipeline.tables.gold import VERDICTS

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.runs import RunContext


def check_health(
    run: RunContext, verdicts: Sequence[Verdict], queue: Callable[[], object] | None = None
) -> SuiteReport:
    """The health gate over verdicts: every value with its limit, k and severity.

    `queue`: queues incidents and their messages in the outbox, as the Checkpoint's action `queue_incidents`.
    """
    from expectations.actions import QueueIncidents  # takes three seconds

    actions = [] if queue is None else [QueueIncidents.by(queue)]
    (report,) = run_gate(None, "health", run, {"health_gate": lambda: add_rules(run, verdicts)}, actions=actions)
    return report


def add_rules(run: RunContext, verdicts: Sequence[Verdict]) -> pa.Table:
    """Verdicts with k and the severity of their rules."""
    import pyarrow as pa

    rows = run.table_of(VERDICTS, verdicts)
    rows = rows.append_column("k", pa.array([verdict.k for verdict in verdicts], pa.int64()))
    return rows.append_column("severity", pa.array([verdict.severity for verdict in verdicts], pa.string()))


def describe_health(verdicts: Sequence[Verdict], run: RunContext) -> str:
    """The verdict in words, see `pipeline.verdicts.health_text`."""
    from pipeline.verdicts.health_text import describe_verdicts

    return describe_verdicts(verdicts, cluster=run.cluster_name, gate=run.cluster.gate, window_ms=run.window_ms)
