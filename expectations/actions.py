"""Actions of Checkpoints: what happens once a gate has judged."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import pyarrow as pa
from great_expectations.checkpoint import ActionContext, CheckpointResult, ValidationAction
from great_expectations.compatibility.pydantic import PrivateAttr

from expectations.data_docs import write_data_docs
from expectations.reports import make_reports
from pipeline.runs import RunContext


class WriteDataDocs(ValidationAction):  # type: ignore[misc] # untyped
    """Writes our pages of Great Expectations' Data Docs; `update_data_docs`, its own action, takes 3.5 s for our suites."""

    type: Literal["write_data_docs"] = "write_data_docs"
    name: str = "write Data Docs"
    _given: tuple[RunContext, Mapping[str, pa.Table]] = PrivateAttr()

    @classmethod
    def of(cls, run: RunContext, rows: Mapping[str, pa.Table]) -> "WriteDataDocs":
        """The action of a run, with the rows that its suites are given."""
        action = cls()
        action._given = (run, rows)
        return action

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """Writes them."""
        run, rows = self._given
        write_data_docs(run, make_reports(checkpoint_result, rows))
        return {}


class QueueIncidents(ValidationAction):  # type: ignore[misc] # untyped
    """Turns the health gate's verdicts into incidents and queues the messages about them in the outbox.

    The outbox keeps one message per change and channel, however often the Checkpoint runs, and delivery tries it until it
    has left.
    """

    type: Literal["queue_incidents"] = "queue_incidents"
    name: str = "queue incidents"
    _queue: Callable[[], object] = PrivateAttr()

    @classmethod
    def by(cls, queue: Callable[[], object]) -> "QueueIncidents":
        """An action that calls the job `raise_incidents`."""
        action = cls()
        action._queue = queue
        return action

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        """Queues them; their report is the action's result."""
        return {"report": self._queue()}
