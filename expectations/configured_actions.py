"""Actions that the configuration adds to Checkpoints, for a minute each; Great Expectations asks their servers without a time-out."""

import ctypes
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from types import SimpleNamespace
from typing import Any, Literal

from great_expectations.checkpoint import ActionContext, CheckpointResult, ValidationAction, actions
from great_expectations.compatibility.pydantic import PrivateAttr
from great_expectations.exceptions import GreatExpectationsError

from pipeline.config.http_access import hide_secrets, list_parts
from pipeline.model.number_text import format_name

Settings = Mapping[str, Any]
_PLAIN = frozenset({"type", "name", "notify_on"})  # settings that hold no secret
_MOST_S = 60
_MOST_CHARACTERS = 300  # of a line in the log
_log = logging.getLogger(__name__)


class _Discreet(logging.Filter):
    """Has what actions log of servers' words on one short line, without what the settings of actions hold."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: set[str] = set()

    def describe(self, words: str) -> str:
        return format_name(hide_secrets(words, *self.secrets), _MOST_CHARACTERS)

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.describe(record.getMessage()), ()
        return True


_discreet = _Discreet()
logging.getLogger("great_expectations.checkpoint.actions").addFilter(_discreet)


class _Direct(actions.requests.Session):  # type: ignore[misc] # untyped
    """Refuses redirects: what an action sends goes to the address in its settings, and to no other one."""

    def get_redirect_target(self, resp: Any) -> None:  # noqa: ANN401 - untyped
        if resp.is_redirect:
            raise actions.requests.TooManyRedirects(f"its server redirects to {resp.headers['location']}: name that")


actions.requests = SimpleNamespace(**{**vars(actions.requests), "Session": _Direct})  # of these actions alone


class RunConfigured(ValidationAction):  # type: ignore[misc] # untyped
    """Runs a configured action. If it fails, or takes too long, the log says so: the verdict stands, and the other actions run."""

    type: Literal["run_configured"] = "run_configured"
    name: str
    _configured: ValidationAction = PrivateAttr()

    @classmethod
    def of(cls, configured: ValidationAction) -> "RunConfigured":
        action = cls(name=configured.name)
        action._configured = configured
        return action

    def run(self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None) -> dict[str, Any]:
        self._configured._data_context = self._data_context  # noqa: SLF001 - as a Checkpoint does
        done: dict[str, Any] = {}
        causes: list[str] = []

        def act() -> None:
            try:
                done.update(self._configured.run(checkpoint_result, action_context) or {})
            except (Exception, SystemExit) as error:  # noqa: BLE001 - of anybody's code
                causes.append(_discreet.describe(f"{type(error).__name__}: {error}"))

        thread = Thread(target=act, daemon=True)
        thread.start()
        thread.join(_MOST_S)
        failed = tuple(causes)
        if thread.is_alive():  # an answer without end would fill the memory: this ends its reading
            failed = (f"it took longer than {_MOST_S} s",)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))
        for cause in failed:
            _log.warning("action %s of checkpoint_actions failed, the verdict stands: %s", self.name, cause)
        return {} if failed else done


def configure(unwrapped: Sequence[ValidationAction], given: Sequence[Settings], context: Any) -> list[RunConfigured]:  # noqa: ANN401 - untyped
    """The actions as they are run; what their settings hold, be it by `${NAME}`, is in no log."""
    for name, value in (pair for settings in given for pair in settings.items()):
        if isinstance(value, str) and name not in _PLAIN:
            with suppress(GreatExpectationsError):  # of a variable that is not set
                _discreet.secrets |= {*list_parts(context.config_provider.substitute_config(value))}
    return [RunConfigured.of(one) for one in unwrapped]
