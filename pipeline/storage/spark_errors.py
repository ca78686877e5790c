"""Turns what Spark and its JVM raise into one error of the project: one cluster's failure does not end others."""

import contextlib
from types import TracebackType

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from pipeline.errors import PipelineError, SparkFailedError
from pipeline.storage.session import is_lost

_SHOWN = 600
_JVM_ENDS_S = 5  # from the end of its sockets to its own


class SparkErrors:
    """Context that turns exceptions of Spark into a `SparkFailedError` of one line; the exception stays as its cause."""

    def __enter__(self) -> None:
        """Begins."""

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Raises the error of one line."""
        is_answer = isinstance(error, PySparkException | Py4JJavaError)
        is_ours = not isinstance(error, Exception) or isinstance(error, PipelineError)
        if not is_ours and is_lost(0 if is_answer else _JVM_ENDS_S):  # pyspark raises errors of sockets, and assertions
            raise SparkFailedError("Spark failed: its JVM has ended, killed or out of memory; run again") from error
        if isinstance(error, PySparkException | Py4JError):
            raise SparkFailedError(f"Spark failed: {describe_spark_error(error)}") from error


def describe_spark_error(error: PySparkException | Py4JError) -> str:
    """The first and the last line of an error, without the JVM's stack; of a task's the last line names the cause."""
    if isinstance(error, Py4JJavaError):  # its own text asks the JVM, which may be gone
        text = str(error.args[0]).rstrip(":\n") + f" ({type(error.java_exception).__name__})"
        with contextlib.suppress(Py4JError, ConnectionError):
            text = str(error.java_exception.toString())
    else:
        text = str(error)
    before_stack = text.partition("JVM stacktrace")[0].partition("\n\tat ")[0]
    lines = [line.strip() for line in before_stack.splitlines() if line.strip()]
    ends = lines[:1] + lines[1:][-1:]
    return " ... ".join(ends)[:_SHOWN] or type(error).__name__
