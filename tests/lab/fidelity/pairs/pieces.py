"""Pieces of calibration and replay that can be switched off one at a time: what stands in for each, and the code it is.

The product has no switch for them: while a piece is off, its functions are replaced in this process, in which Sail runs tasks, too.
"""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pipeline.calibration import session_traffic, within_ms
from pipeline.calibration.caveats import Origin
from pipeline.calibration.partitioner import baseline, linger_waits, settings
from pipeline.calibration.service import batch_fit, fit, latency_fit, model, trial
from pipeline.calibration.within_ms import Pattern
from pipeline.jobs import replay as replay_job
from pipeline.replay import client_matching, metrics, sessions, topics
from pipeline.replay.simulated import scenario
from pipeline.replay.simulated.topics import ModelError, SimulatedTopic
from pipeline.simulator.clients.client import Compression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipeline.calibration.partitioner.settings import Setting
    from pipeline.calibration.service.fit import NodeMetrics
    from pipeline.calibration.service.model import Parameter

NOTHING = "nothing"
"""The name of what is compared with: all pieces work."""
_OTHER_SEEDS = 1_000
_HALF_PPM = 500_000
_EARLY = {"sessions", "metrics", "client_matching"}
"""Modules of the replay that decide what is simulated; others decide how, or what is said of it."""


@dataclass(frozen=True)
class Piece:
    """A piece.

    Attributes:
        name: For the command line.
        does: What it is for.
        stand_ins: What takes an attribute's place while it is off: a module or class, the attribute's name, and the value.
        code: Functions, classes and modules that would go with it.
    """

    name: str
    does: str
    stand_ins: tuple[tuple[Any, str, Any], ...] = ()
    code: tuple[Any, ...] = ()

    @property
    def is_late(self) -> bool:
        """It changes what is simulated or said without a trace in what calibration finds."""
        names = [getattr(owner, "__module__", getattr(owner, "__name__", "")) for owner, *_ in self.stand_ins]
        replay = [name.rpartition(".")[2] for name in names if name.startswith("pipeline.replay.")]
        return model.__name__ in names or not _EARLY.issuperset(replay)

    @property
    def line_count(self) -> int:
        """Lines of its code."""
        return sum(len(inspect.getsourcelines(each)[0]) for each in self.code)

    @contextlib.contextmanager
    def switched_off(self) -> Iterator[None]:
        """The piece does nothing within the block."""
        with contextlib.ExitStack() as stack:
            for owner, name, stand_in in self.stand_ins:
                stack.enter_context(patch.object(owner, name, stand_in))
            yield


def _keep_model(given: Any, *_others: object) -> Any:
    return getattr(given, "model", given)


def _keep_variant(found: Any, *_others: object) -> Any:
    return found[0].baseline


def _trust_average(node: NodeMetrics, _before: object) -> NodeMetrics:
    return node


def _take_latency(_rate_per_s: float, latency_ms: float) -> Parameter:
    return model.Parameter(latency_ms, latency_ms, latency_ms, Origin.MEASURED)


def _default_settings(*given: Any, **named: Any) -> dict[str, Setting]:
    found = _infer_settings(*given, **named)
    return {name: one for name, one in found.items() if name not in {"linger.ms", "batch.size"}}


def _halve(traffic: Any, batches: Any) -> Compression | None:
    return Compression(_HALF_PPM) if settings.measure_compression(traffic, batches) else None


_infer_settings = settings.infer_settings
_plan = replay_job.plan_simulations
_EXACT = ModelError(0.0, 0.0, 0.0)
_REFINEMENT = (
    *(latency_fit, batch_fit, trial, sessions._Trial, sessions.refine_sessions),
    *(sessions._list_trials, sessions.can_refine, sessions._refine),
)
_STEADY = (lambda *_others: Pattern.STEADY,)

PIECES = (
    Piece(NOTHING, "everything works"),
    Piece(
        "other-seeds",
        "everything works, with other seeds: what chance alone changes",
        (
            (
                replay_job,
                "plan_simulations",
                lambda groups, candidates, seeds: _plan(groups, candidates, [seed + _OTHER_SEEDS for seed in seeds]),
            ),
            *((module, "SEEDS", (3, 4)) for module in (latency_fit, batch_fit)),
        ),
    ),
    Piece("refinement", "all trials by simulation", ((sessions, "can_refine", lambda *_a, **_b: False),), _REFINEMENT),
    Piece(
        "delay-trials",
        "delays moved by trial until latencies are as recorded",
        ((latency_fit, "_fit_latencies", lambda *_others: {}),),
        (latency_fit._fit_latencies, latency_fit._move, trial.simulate_answers),
    ),
    Piece(
        "followed-delays",
        "delays followed from scrape to scrape",
        ((fit, "follow_delays", _keep_model),),
        (fit.follow_delays,),
    ),
    Piece(
        "fluctuation",
        "delays drawn between two scrapes",
        ((scenario, "fluctuate", _keep_model), (trial, "fluctuate", _keep_model)),
        (model.fluctuate, model._correlate, model._invert_correlation, model._draw_uniform),
    ),
    Piece(
        "own-latency",
        "latencies of minutes from the scrapes within them",
        ((fit, "take_own", lambda node, _spans: node),),
        (fit.take_own,),
    ),
    Piece(
        "trailing-averages",
        "the minute before taken out of averages",
        ((fit, "take_out_stale", _trust_average),),
        (fit.take_out_stale,),
    ),
    Piece(
        "queue",
        "waiting taken out of latencies by the queue's law",
        ((fit, "estimate_request_time", _take_latency),),
        (fit.estimate_request_time, fit._invert_queue),
    ),
    Piece(
        "delay-by-minute",
        "a delay of its own for each minute",
        ((fit, "_list_delays", lambda *_others: ()),),
        (fit._list_delays,),
    ),
    Piece(
        "delays-from-batches",
        "delays read off batches, without metrics",
        ((latency_fit, "fit_batches", lambda _topics, models, *_others: models),),
        (batch_fit.fit_batches, batch_fit._search, batch_fit._bound_minimum),
    ),
    Piece(
        "variant",
        "adaptive told from uniform by trial",
        ((sessions, "choose_variant", _keep_variant),),
        (batch_fit.choose_variant,),
    ),
    Piece(
        "linger-from-waits",
        "`linger.ms` corrected by what batches waited",
        ((sessions, "settle_linger", lambda found, _waiting: found),),
        (linger_waits.settle_linger, linger_waits._judge_wait, linger_waits._take_wait, linger_waits.Waiting),
    ),
    Piece(
        "settings-from-batches",
        "`linger.ms` and `batch.size` read off batches",
        ((baseline, "infer_settings", _default_settings), (sessions, "settle_linger", lambda found, _waiting: found)),
        (settings.bound_batch_bytes, settings.bound_linger_ms, settings._find_most_covered, settings._measure_waits),
    ),
    Piece(
        "pooled-clients",
        "metrics of several clients for producers without ids",
        ((metrics, "pool_clients", lambda *_others: {}),),
        (client_matching.pool_clients,),
    ),
    Piece(
        "lent-delays",
        "delays of brokers taken from other producers",
        tuple((owner, "share_models", lambda found, _sent: dict(found)) for owner in (metrics, sessions)),
        (metrics.share_models, model.lend_model),
    ),
    Piece(
        "metrics",
        "all that clients' metrics say",
        ((metrics, "match_sessions", lambda *_others: {}), (metrics, "pool_clients", lambda *_others: {})),
        (client_matching, metrics, fit),
    ),
    Piece(
        "bursts",
        "bursts within a millisecond",
        tuple((owner, "choose_pattern", *_STEADY) for owner in (session_traffic, sessions)),
        (within_ms.choose_pattern, within_ms._find_bursts, within_ms._place_bursts, within_ms._bound_chance),
    ),
    Piece(
        "compression",
        "the codec's ratio measured",
        ((sessions, "measure_compression", _halve),),
        (settings.measure_compression,),
    ),
    Piece(
        "open-costs",
        "threads' costs drawn from half to three times as measured elsewhere",
        ((scenario, "vary_untimed", lambda _chance: 1.0),),
        (model.vary_untimed,),
    ),
    Piece(
        "open-delays",
        "delays drawn from their ranges",
        ((model, "vary_delay", lambda _usual, delay_ms, _chance: delay_ms), (model, "_vary_level", lambda *_a: 1.0)),
        (model.vary_delay, model._vary_level, model._draw_triangle),
    ),
    Piece(
        "model-error",
        "ranges that hold what the model was off by",
        ((topics, "MODEL_ERROR", _EXACT), (SimulatedTopic, "error_of_others", lambda _topic: _EXACT)),
        (ModelError,),
    ),
)
"""All, the comparison first."""
