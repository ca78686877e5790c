"""Types of a scenario file's values: times, distributions, values over time, files in its folder."""

import csv
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationInfo

from pipeline.config.section import ConfigPath, Section, WrongValuesError
from pipeline.errors import ConfigError
from pipeline.simulator.clients.client import MS, SECOND
from pipeline.simulator.distributions import Distribution, Steps

_Part = TypeVar("_Part")
_MOST_S = 10 * 365 * 86_400
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Number = Annotated[Amount, Field(le=_MOST_S)]
Seconds = Number
Milliseconds = Annotated[float, Field(ge=0, le=86_400_000, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class ScenarioPart(Section):
    """A part of a scenario file; `simulate --schema` prints the text under each field."""

    model_config = ConfigDict(use_attribute_docstrings=True)


def _check_file(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"no file {path}")
    return path


ExistingFile = Annotated[ConfigPath, AfterValidator(_check_file)]


class _Exponential(Section):
    exponential: Number


_NUMBER = TypeAdapter(Number)
_QUANTILES = TypeAdapter(dict[Share, Number])


def _read_quantity(value: Any, unit: int) -> Distribution:  # noqa: ANN401  (whatever YAML holds)
    if isinstance(value, Distribution):
        return value
    if not isinstance(value, dict):
        return Distribution.constant(round(_NUMBER.validate_python(value) * unit))
    if "exponential" in value:
        mean = _Exponential.model_validate(value).exponential
        return Distribution.exponential(max(1, round(mean * unit)))
    points = tuple((p, round(number * unit)) for p, number in _QUANTILES.validate_python(value).items())
    rises = all(p < q and low <= high for (p, low), (q, high) in pairwise(points))
    if not points or points[0][0] != 0 or points[-1][0] != 1 or not rises:
        raise ValueError("quantiles must rise from probability 0 to 1, and their values with them")
    return Distribution(points)


def _quantity(unit: int) -> BeforeValidator:
    return BeforeValidator(partial(_read_quantity, unit=unit), json_schema_input_type=_Exponential | Number)


Quantity = Annotated[Distribution, _quantity(1)]
"""A number, quantiles (`{0: 0.1, 0.5: 0.2, 1: 3}`), or `{exponential: mean}`."""
QuantityMs = Annotated[Distribution, _quantity(MS)]  # the same in milliseconds, as nanoseconds
QuantityS = Annotated[Distribution, _quantity(SECOND)]  # the same in seconds, as nanoseconds


class _Step(Section):
    at_s: Seconds
    ms: Milliseconds


class _Series(Section):
    every_s: Annotated[Seconds, Field(ge=1e-6)]
    ms: tuple[Milliseconds, ...]


class _SeriesFile(Section):
    file: ExistingFile


_MILLISECONDS = TypeAdapter(Milliseconds)
_SCHEDULE = TypeAdapter(tuple[_Step, ...])
_CSV_ROW = TypeAdapter(tuple[Seconds, Number])


def _read_delay(value: Any, info: ValidationInfo) -> Steps:  # noqa: ANN401  (whatever YAML holds)
    if isinstance(value, Steps):
        return value
    if isinstance(value, list):
        return _make_steps([(round(step.at_s * SECOND), step.ms) for step in _SCHEDULE.validate_python(value)])
    if not isinstance(value, dict):
        return Steps.constant(round(_MILLISECONDS.validate_python(value) * MS))
    if "file" in value:
        return _make_steps(_read_csv(_SeriesFile.model_validate(value, context=info.context).file))
    series = _Series.model_validate(value)
    every_ns = round(series.every_s * SECOND)
    return _make_steps([(index * every_ns, ms) for index, ms in enumerate(series.ms)])


Delay = Annotated[Steps, BeforeValidator(_read_delay, json_schema_input_type=_Series | Milliseconds)]
"""Milliseconds over time, as nanoseconds: a constant; a schedule, `[{at_s: 0, ms: 0}, {at_s: 30, ms: 20}]`; an even
series, `{every_s: 1, ms: [0, 3, 20]}`; or a recorded one, `{file: delays.csv}` with columns at_s and ms."""


def _make_steps(rows: Sequence[tuple[int, float]]) -> Steps:
    try:
        return Steps(tuple(start_ns for start_ns, _ in rows), tuple(round(ms * MS) for _, ms in rows))
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _read_csv(path: Path) -> list[tuple[int, float]]:
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        try:
            rows = [_CSV_ROW.validate_python((row["at_s"], row["ms"])) for row in reader]
        except (KeyError, ValueError, csv.Error) as error:
            problem = f"{path}:{reader.line_num}: expected numbers, 0 or more, in columns at_s and ms"
            raise WrongValuesError((("file",), problem)) from error
    return [(round(at_s * SECOND), ms) for at_s, ms in rows]


def named_once(key: str) -> Callable[[tuple[_Part, ...]], tuple[_Part, ...]]:

    def check(parts: tuple[_Part, ...]) -> tuple[_Part, ...]:
        names = [getattr(part, key) for part in parts]
        twice = [(number, name) for number, name in enumerate(names) if name in names[:number]]
        if twice:
            problems = [((number,), f"{key} {name} twice, first at [{names.index(name)}]") for number, name in twice]
            raise WrongValuesError(*problems)
        return parts

    return check
