"""Rows of `silver.producer_sessions` and `silver.service_models` from the calibration's values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pipeline.calibration.traffic import choose_pattern

if TYPE_CHECKING:
    from pipeline.calibration.baseline import Baseline
    from pipeline.calibration.batches import SessionBatches
    from pipeline.calibration.service import Parameter, ServiceModel
    from pipeline.calibration.session_traffic import SessionTraffic
    from pipeline.calibration.settings import Setting


def session_row(traffic: SessionTraffic, batches: SessionBatches, baseline: Baseline) -> dict[str, Any]:
    """The row of `silver.producer_sessions`, without cluster, window and run.

    Args:
        traffic: The session's records in a topic and window.
        batches: And batches.
        baseline: What it used.
    """
    return {
        "topic": traffic.topic,
        "topic_id": traffic.topic_id,
        "producer_id": traffic.producer_id,
        "producer_epoch": traffic.producer_epoch,
        "record_count": len(traffic),
        "keyless_record_count": int((~traffic.is_keyed).sum()),
        "batch_count": len(batches),
        "traffic_pattern": choose_pattern(traffic.elapsed_ms).value,
        **baseline_columns(baseline),
    }


def baseline_columns(baseline: Baseline) -> dict[str, Any]:
    """Of a row of `silver.producer_sessions`, what the session uses."""
    return {
        "strategy": baseline.strategy,
        "source": baseline.source,
        "confidence": baseline.confidence,
        "runner_up": baseline.runner_up,
        "client": baseline.client,
        "client_version": baseline.version,
        "version_range": baseline.version_range,
        "settings": {name: setting.value for name, setting in sorted(baseline.settings.items())},
        "setting_sources": {name: _tell_source(setting) for name, setting in sorted(baseline.settings.items())},
        "reason": baseline.reason,
        "assumptions": "; ".join(baseline.assumptions),
    }


def service_row(
    producer_id: int,
    producer_epoch: int,
    model: ServiceModel,
    *,
    client_id: str | None = None,
    topic: str = "",
    topic_id: str = "",
) -> dict[str, Any]:
    """The row of `silver.service_models`, without cluster, window and run.

    Args:
        producer_id: Of the session.
        producer_epoch: Of the session.
        model: Fitted, configured or assumed.
        client_id: Whose metrics it is fitted to, or None.
        topic: Of a pooled session.
        topic_id: Of a pooled session.
    """
    return {
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "topic": topic,
        "topic_id": topic_id,
        "broker_id": model.broker_id,
        "client_id": client_id,
        **_tell_parameter("request", model.request_ms),
        **_tell_parameter("partition", model.partition_ms),
        **_tell_parameter("kib", model.kib_ms),
        **_tell_parameter("delay", model.delay_ms),
        "delay_starts_ms": [at_ms for at_ms, _ in model.delay_series],
        "delays_us": [round(delay_ms * 1000) for _, delay_ms in model.delay_series],
        "is_identifiable": model.is_identifiable,
        "assumptions": "; ".join(model.assumptions),
    }


def _tell_parameter(name: str, parameter: Parameter) -> dict[str, Any]:
    return {
        f"{name}_ms": parameter.value,
        f"{name}_low_ms": parameter.low,
        f"{name}_high_ms": parameter.high if math.isfinite(parameter.high) else None,
        f"{name}_source": parameter.source,
    }


def _tell_source(setting: Setting) -> str:
    if setting.low is None:
        return setting.source
    bounds = f"{setting.low:g} or more" if setting.high is None else f"{setting.low:g} to {setting.high:g}"
    return f"{setting.source}, {bounds}"
