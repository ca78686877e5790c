"""Forecasts by statsforecast's models, run by an interpreter that has statsforecast 2.1.1: histories on stdin, forecasts on stdout."""

import json
import sys
import time

import numpy as np
from statsforecast.models import (
    MSTL,
    AutoETS,
    DynamicOptimizedTheta,
    HoltWinters,
    SeasonalExponentialSmoothingOptimized,
    SeasonalNaive,
)

MODELS = {
    "SeasonalNaive, week": SeasonalNaive(168),
    "SeasonalExponentialSmoothing, week": SeasonalExponentialSmoothingOptimized(168),
    "MSTL, day and week": MSTL([24, 168]),
    "AutoETS, day": AutoETS(season_length=24),
    "Theta, week": DynamicOptimizedTheta(season_length=168),
    "Holt-Winters, week": HoltWinters(season_length=168),
}


def forecast(model, history):
    """Its 168 hours, and the seconds of processor time they took."""
    started = time.process_time()
    values = model.forecast(y=np.array(history), h=168)["mean"]
    return [np.asarray(values, float).tolist(), time.process_time() - started]


histories = json.load(sys.stdin)
print(json.dumps({name: [forecast(model, one) for one in histories] for name, model in MODELS.items()}))
