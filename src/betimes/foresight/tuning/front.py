"""The Pareto front of a search, as stored in front.json, and its three named points."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from betimes.errors import InputError
from betimes.foresight.objectives import Objective, parse_objectives
from betimes.foresight.tuning.search import Ended
from betimes.kernels import Floats
from betimes.policies import parse_policy

FASTEST, BALANCED, PREDICTABLE = "PCS-JCT", "PCS-balanced", "PCS-pred"
NAMES = (PREDICTABLE, BALANCED, FASTEST)
FILE = "front.json"
FORMAT = 1

Measured = dict[str, float]
"""A value for each objective by its name, `jct:avg`; in seconds, fractions or ratios."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Point(_Record):
    """A configuration on the front: its number, its names (PCS-pred ...), what it is made of, and what it brings.

    train: on the part that it was found on; test: on the part that it is reported on (None: there was none).
    """

    number: int
    names: tuple[str, ...] = ()
    policy: str
    variables: dict[str, float]
    train: Measured
    test: Measured | None

    def __str__(self) -> str:
        return self.policy


class Baseline(_Record):
    """A policy to compare with; None: it leaves some job unfinished on that part."""

    policy: str
    train: Measured | None
    test: Measured | None


class Part(_Record):
    """Some jobs of the workload, in order of submission."""

    fingerprint: str
    jobs: int
    first_job: str
    last_job: str
    load_frac: float | None = Field(description="what they offer on the units; None: submitted at one time")
    sizes_s: tuple[float, float, float] = Field(description="10th, 50th and 90th percentile of their sizes")


class Front(_Record):
    """Configurations that no other tried is better than in every objective, in order of the first.

    A sequence of its points. Read one with `Front.read`, which validates.
    """

    format: Literal[1] = FORMAT
    objectives: tuple[str, ...]
    units: dict[str, str] = Field(description="what each objective is in: s, frac, ratio")
    points: tuple[Point, ...]
    baselines: tuple[Baseline, ...] = ()
    workload: str
    fingerprint: str
    jobs: int
    train: Part
    test: Part | None
    pool_units: int
    cluster: str | None
    fractional: bool
    sizes: str
    restart_s: float
    predict_sample: int | None = Field(
        default=None, description="jobs that the search promised a finish; None: all"
    )
    space: str
    solver: str
    seed: int
    evaluations: int
    impossible: int = Field(
        description="of the evaluations: a class would have got nothing, or a job never ended"
    )
    ended: Ended
    seconds: float
    simulations: int = Field(description="made by this search; the other evaluations were known already")
    hypervolume: float
    reference: Measured
    versions: dict[str, str]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Point]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return iter(self.points)

    def __getitem__(self, number: int) -> Point:
        return self.points[number]

    @property
    def parsed_objectives(self) -> tuple[Objective, ...]:
        """The objectives themselves."""
        return parse_objectives(self.objectives)

    def named(self, name: str) -> Point:
        """The point of a name (`PCS-pred`, in any case) or number; raises InputError that says what there is."""
        for point in self.points:
            if name == str(point.number) or name.lower() in map(str.lower, point.names):
                return point
        names = ", ".join(name for point in self.points for name in point.names)
        raise InputError(
            f"the front has no point {name!r}; give a number from 0 to {len(self.points) - 1}, or one of {names}"
        )

    def write(self, folder: str | Path) -> Path:
        """Write front.json into a folder that is there; returns its path."""
        path = Path(folder) / FILE
        path.write_text(json.dumps(self.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")
        return path

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read front.json, or that of a folder; raises InputError that names the file and what is wrong with it."""
        file = Path(path)
        file = file / FILE if file.is_dir() else file
        try:
            found = cls.model_validate(json.loads(file.read_text(encoding="utf-8")))
            for point in found.points:
                parse_policy(point.policy)
        except OSError as error:
            raise InputError(f"{file}: cannot be read ({error.strerror or error})") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            wrong = f"field {where} is missing, or not as it writes it" if where else "it is no table"
            if first["type"] == "value_error":
                wrong = first["msg"].removeprefix("Value error, ")
            raise InputError(
                f"{file}: not a front of this version of Betimes: {wrong}; make it anew with betimes tune"
            ) from None
        except ValueError as error:
            raise InputError(f"{file}: not JSON ({error}); make it anew with betimes tune") from None
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
        return found

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if not self.points:
            raise ValueError("a front has at least one point")
        if [point.number for point in self.points] != list(range(len(self.points))):
            raise ValueError("points are numbered from 0 in order")
        measured: Sequence[tuple[str, Measured | None]] = [
            *(
                (f"point {point.number}", values)
                for point in self.points
                for values in (point.train, point.test)
            ),
            *((each.policy, values) for each in self.baselines for values in (each.train, each.test)),
        ]
        for what, values in measured:
            if values is not None and set(values) != set(self.objectives):
                raise ValueError(f"{what} has other values than those of the objectives")
        return self


def named_points(costs: Floats, objectives: Sequence[Objective]) -> dict[str, int]:
    """The row of each of `NAMES` among the (points, objectives) costs of a front; one row may have several.

    As the paper picks them (PCS, section 5.1): PCS-JCT is the fastest, PCS-pred keeps its promises best, PCS-balanced
    is nearest to the best of every objective, each scaled to its span on the front. For other
    objectives than the paper's PCS-JCT is best in the first objective of JCT, else in the first that is not of
    prediction error; PCS-pred in the first of prediction error, else in the last that PCS-JCT was not chosen by.
    """
    by = leading(objectives)
    spans = costs.max(axis=0) - costs.min(axis=0)
    scaled = (costs - costs.min(axis=0)) / np.where(spans > 0, spans, 1.0)
    return {
        PREDICTABLE: _least(scaled, by[PREDICTABLE]),
        BALANCED: int(np.argmin((scaled**2).sum(axis=1))),
        FASTEST: _least(scaled, by[FASTEST]),
    }


def leading(objectives: Sequence[Objective]) -> dict[str, int]:
    """The objectives by which PCS-JCT and PCS-pred are chosen."""
    numbers = range(len(objectives))
    fast = next((n for n in numbers if objectives[n].metric == "jct"), None)
    if fast is None:
        fast = next((n for n in numbers if not objectives[n].predicts), 0)
    pred = next((n for n in numbers if objectives[n].predicts), None)
    if pred is None:
        pred = next((n for n in reversed(numbers) if n != fast), fast)
    return {FASTEST: fast, PREDICTABLE: pred}


def _least(scaled: Floats, by: int) -> int:
    """The row with the least in one column; of several, the one nearest to the best of all."""
    best = np.flatnonzero(scaled[:, by] == scaled[:, by].min())
    return int(best[np.argmin((scaled[best] ** 2).sum(axis=1))])
