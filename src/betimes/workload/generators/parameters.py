"""A generator's declaration of itself and its parameters, for the command line and the reference pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from betimes.errors import InputError, did_you_mean
from betimes.workload.workload import Workload

Value = int | float | bool | str
Kind = Literal["int", "float", "bool", "text", "path", "choice"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a generator: how its text is read and what it may be.

    `default` None: it must be given. `above` excludes the minimum itself. `used_with` names another parameter
    and the values of it with which this one means anything.
    """

    name: str
    kind: Kind
    default: Value | None
    description: str
    minimum: float = -math.inf
    maximum: float = math.inf
    above: bool = False
    choices: tuple[str, ...] = ()
    used_with: tuple[str, tuple[str, ...]] | None = None

    @property
    def expected(self) -> str:
        """The range of values, in words."""
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.kind in ("text", "path", "bool"):
            return {"text": "a text", "path": "the path of a file", "bool": "true or false"}[self.kind]
        what = "a whole number" if self.kind == "int" else "a number"
        if self.minimum > -math.inf:
            what += f" {'above' if self.above else 'from'} {self.minimum:g}"
        return what + (f" to {self.maximum:.10g}" if self.maximum < math.inf else "")

    def read(self, text: str) -> Value:
        """The value that a text stands for; raises ValueError where it stands for none."""
        if self.kind == "bool":
            words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
            if text.lower() not in words:
                raise ValueError(text)
            return words[text.lower()]
        if self.kind in ("int", "float"):
            value = int(text) if self.kind == "int" else float(text)
            low = value > self.minimum if self.above else value >= self.minimum
            if not (math.isfinite(value) and low and value <= self.maximum):
                raise ValueError(text)
            return value
        if not text or (self.choices and text not in self.choices):
            raise ValueError(text)
        return text


@dataclass(frozen=True)
class Generator:
    """A named way to make a workload; `source` is where it is described, `details` what a user must know.

    in_chunks: makes the same jobs as several workloads, one after the other. needs_units: whether the jobs depend on
    how many units they are for.
    """

    name: str
    description: str
    source: str
    parameters: tuple[Parameter, ...]
    function: Callable[..., Workload]
    details: str = ""
    in_chunks: Callable[..., Iterator[Workload]] | None = None
    needs_units: bool = True

    def read(self, given: dict[str, str]) -> dict[str, Value]:
        """Every parameter's value from the given texts and the defaults; raises InputError."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise InputError(
                    f"generator {self.name}: no parameter {name!r}{did_you_mean(name, tuple(known))}; "
                    f"it has {', '.join(known)}"
                )
        values: dict[str, Value] = {}
        for name, parameter in known.items():
            if name in given:
                try:
                    values[name] = parameter.read(given[name])
                except ValueError:
                    raise InputError(
                        f"generator {self.name}, parameter {name}: expected {parameter.expected}, "
                        f"got {given[name]!r}{did_you_mean(given[name], parameter.choices)}"
                    ) from None
            elif parameter.default is None:
                raise InputError(
                    f"generator {self.name} needs {name}={parameter.kind.upper()}: {parameter.description}"
                )
            else:
                values[name] = parameter.default
        for name in given:
            condition = known[name].used_with
            if condition is not None and str(values[condition[0]]).lower() not in condition[1]:
                other, fitting = condition
                raise InputError(
                    f"generator {self.name}, parameter {name}: it has a meaning only with "
                    f"{other}={' or '.join(fitting)}, not with {other}={values[other]}"
                )
        return values
