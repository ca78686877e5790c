"""Columns of `silver.producer_sessions` and `silver.service_models`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.calibration.partitioner.baseline import Baseline
    from pipeline.calibration.partitioner.settings import Setting
    from pipeline.calibration.service.model import ServiceModel


def baseline_columns(baseline: Baseline) -> dict[str, Any]:
    """What a session uses: the last columns of a row of `silver.producer_sessions`."""
    return {
        "strategy": baseline.strategy,
        "source": baseline.source,
        "confidence": baseline.confidence,
        "runner_up": baseline.runner_up,
        "client": baseline.client,
        "client_version": baseline.version,
        "version_range": baseline.version_range,
        "settings": {name: setting.value for name, setting in sorted(baseline.settings.items())},
        "setting_sources": {name: _format_source(setting) for name, setting in sorted(baseline.settings.items())},
        "reason": baseline.reason,
        "assumptions": "; ".join(statement.text for statement in baseline.assumptions),
    }


def _format_source(setting: Setting) -> str:
    if setting.low is None:
        return setting.source
    bounds = f"{setting.low:g} or more" if setting.high is None else f"{setting.low:g} to {setting.high:g}"
    return f"{setting.source}, {bounds}"


def service_columns(model: ServiceModel) -> dict[str, Any]:
    """How long a broker takes: a row of `silver.service_models` without the session."""
    parameters = {
        "request": model.request_ms,
        "partition": model.partition_ms,
        "kib": model.kib_ms,
        "delay": model.delay_ms,
    }
    row: dict[str, Any] = {"broker_id": model.broker_id}
    for name, parameter in parameters.items():
        row[f"{name}_ms"] = parameter.value
        row[f"{name}_low_ms"] = parameter.low
        row[f"{name}_high_ms"] = parameter.high if math.isfinite(parameter.high) else None
        row[f"{name}_source"] = parameter.source
    return row | {
        "delay_starts_ms": [at_ms for at_ms, _ in model.delay_series],
        "delays_us": [round(delay_ms * 1000) for _, delay_ms in model.delay_series],
        "is_identifiable": model.is_identifiable,
        "assumptions": "; ".join(statement.text for statement in model.assumptions),
    }
