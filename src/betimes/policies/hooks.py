"""A policy for the pool: up to three compiled hooks, and a declaration of its parameters.

``rank(view, now, chosen, key)``
    writes into key[k] the rank of the job in slot chosen[k]; the smaller goes first. The rank of a job without units
    must not change while it waits: the engine does not rank jobs behind the last holder again. Without this hook jobs
    rank by submission.
``classify(view, slot)``
    returns the group (0, 1, ...) of the newly submitted job. Without this hook there is one group.
``allocate(view, now, grants, again)``
    decides: for each k below the returned count, grants[k].job is a slot and grants[k].units its units; jobs not named
    get none. With again[0].at_s the hook asks to be called again at that time if nothing happens before. Without this
    hook units are handed out in the order of rank (`greedy`).

A hook reads its view and writes only its output: a `rank` or `classify` that sets a field of a record is refused,
`chosen` is a copy, and a key that is not written counts as missing. The core checks every decision before applying it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

import numpy as np

from betimes.core.pool.columns import Again, Grant, PoolRules, State, View
from betimes.core.pool.order import share_by_user, share_in_group
from betimes.errors import PolicyError
from betimes.kernels import Floats, Ints, Records, Struct, full_kernel, hook, is_hook_ready, kernel
from betimes.kernels.structs import layout_of
from betimes.policies.declaring import check_declaration, check_reads_only, located, mistyped

# Properties of a policy that spare play-outs a decision at every finish (`foresight.shortcuts`).
ASK = 0  # nothing
IN_ORDER = 1  # units go down the queue, to each job as many as it can use
ONE_EACH_IN_ORDER = 2  # while there are no fewer jobs than units: one to each of the first jobs in the queue
EQUAL_SHARES = 3  # while there are no fewer jobs than units: the same fraction of a unit to each
BY_CLASS = 4  # freed units stay in a class with waiting jobs (weighted fair queueing)

Value = float | tuple[Fraction, ...] | str


@dataclass(frozen=True)
class Parameter:
    """One parameter of a policy, as declared to the command line, the documentation and the search."""

    name: str
    help: str
    default: Value | None = None
    low: float = -math.inf
    high: float = math.inf
    is_list: bool = False
    choices: tuple[str, ...] = ()
    is_duration: bool = False  # seconds, or with a unit: 15m, 24h, 7d
    is_text: bool = False  # free text without commas, which the policy interprets

    def __post_init__(self) -> None:
        """Refuse a default that users could not give; raises PolicyError."""
        where, default = f"parameter {self.name}: the default", self.default
        if self.choices and default is not None and default not in self.choices:
            raise PolicyError(f"{where} {default!r} is none of its choices, {', '.join(self.choices)}")
        for number in default if isinstance(default, tuple) else (default,):
            if isinstance(number, int | float | Fraction) and not self.low <= number <= self.high:
                raise PolicyError(f"{where} {float(number):g} is not from {self.low:g} to {self.high:g}")


@dataclass(frozen=True)
class Setting:
    """The inputs from which a policy may derive parameters before the first job."""

    units: float
    fractional: bool
    speedup: Floats  # (curves, widest + 1)
    sizes: Floats  # as believed, seconds on one unit, one a job of the workload
    restart_s: float

    def check_period(self, policy: str, parameter: str, period_s: float) -> None:
        """Refuse a period in which jobs that take turns would only restart."""
        if period_s <= self.restart_s:
            raise PolicyError(
                f"policy {policy}, parameter {parameter}: {period_s:g} s is no longer than a restart takes "
                f"({self.restart_s:g} s), so that jobs that take turns would never get on; choose a larger one"
            )


@dataclass(frozen=True)
class Prepared:
    """The hooks' inputs besides the state: `View.params`, `View.table`, and the number of groups."""

    params: Floats
    table: Ints = field(default_factory=lambda: np.zeros((1, 1), dtype=np.int64))
    groups: int = 1


@dataclass(frozen=True)
class Policy:
    """A scheduling policy for the pool engine."""

    name: str
    summary: str
    question: str
    paper: str
    parameters: tuple[Parameter, ...] = ()
    rank: Any = None
    classify: Any = None
    allocate: Any = None
    reads_progress: bool = True
    in_order: bool = False  # `allocate` serves jobs in their order, as `greedy` does
    playout_whole: int = ASK  # in whole units
    playout_fractional: int = ASK
    prepare: Callable[[dict[str, Value | None], Setting], Prepared] | None = None
    unproven: Path | None = None  # the file that `loading.mark_proven` creates

    def prepared(self, values: dict[str, Value | None], setting: Setting) -> Prepared:
        """The hooks' parameters for one simulation; by default the numbers in the order declared."""
        if self.prepare is not None:
            return self.prepare(values, setting)
        numbers: list[float] = []
        for parameter in self.parameters:
            value = values[parameter.name]
            if not isinstance(value, int | float):
                raise PolicyError(
                    f"policy {self.name}, parameter {parameter.name}: needs a number, as in {parameter.name}=1"
                )
            numbers.append(float(value))
        return Prepared(np.array(numbers or [0.0], dtype=np.float64))

    def rules(self, learns: bool = False) -> PoolRules:
        """The policy's rules for the engine, with compiled hooks; learns: beliefs are drawn from history.

        Raises PolicyError for a hook that does not compile, or that writes.
        """
        check_reads_only(self.name, self.rank)
        check_reads_only(self.name, self.classify)
        return PoolRules(
            ranked=self.rank is not None,
            reads_progress=self.reads_progress,
            learns=learns,
            splits=False,
            **{name: compiled(self.name, each, PoolRules, name) for name, each in self._hooks().items()},
        )

    def sharing(self, rules: PoolRules) -> PoolRules:
        """Its rules where users share: in their order, or user by user if it divides units in no order."""
        splits = self.allocate is not None and not self.in_order
        return rules.replaced(
            splits=splits, share=hook(share_by_user if splits else share_in_group, PoolRules, "share")
        )

    def is_ready(self) -> bool:
        """Whether its hooks are in the cache of compiled kernels."""
        return all(is_hook_ready(each, PoolRules, name) for name, each in self._hooks().items())

    def _hooks(self) -> dict[str, Any]:
        return {
            "rank": self.rank or by_submission,
            "classify": self.classify or one_group,
            "allocate": self.allocate or greedy,
            "share": nobody_left_out,
        }


def priority(**declared: Unpack[Declaration]) -> Callable[[Any], Policy]:
    """Make a policy of a function ``rank(view, now, chosen, key)``: units go out in the order of its keys."""
    return lambda function: _declared(function, "priority", declared, rank=full_kernel(function))


def allocation(**declared: Unpack[Declaration]) -> Callable[[Any], Policy]:
    """Make a policy of a function ``allocate(view, now, grants, again)`` that decides the units of each job."""
    return lambda function: _declared(function, "allocation", declared, allocate=full_kernel(function))


class Declaration(TypedDict, total=False):
    """The arguments of `priority` and `allocation`; `name` is by default the function's."""

    summary: Required[str]
    name: str
    question: str
    paper: str
    parameters: tuple[Parameter, ...]


SAID = ("summary", "name", "question", "paper", "parameters")
"""Arguments of every decorator."""


def _declared(function: Any, decorator: str, declared: Declaration, **hook: Any) -> Policy:
    check_declaration(function, decorator, declared, SAID)
    return Policy(
        name=declared.get("name", function.__name__),
        summary=declared["summary"],
        question=declared.get("question", ""),
        paper=declared.get("paper", ""),
        parameters=tuple(declared.get("parameters", ())),
        **hook,
    )


def compiled(policy: str, function: Any, rules: type[Struct], name: str) -> Any:
    """A policy's hook as the field `name` of the rules; raises PolicyError where it does not compile."""
    try:
        return hook(function, rules, name)
    except Exception as error:  # Numba raises many types of error for a function that it cannot compile
        where, message = located(function), first_words(error)
        gets = (each for each in layout_of(rules).fields[name].parameters if isinstance(each, type))
        structs = [each for each in gets if issubclass(each, Struct)]
        if found := mistyped(function, message, structs):
            message += f", line {found[0]}{found[1]}"
        raise PolicyError(f"policy {policy} ({where}) does not compile: {message}") from error


def first_words(error: Exception) -> str:
    """The message of a compilation error on one line, without the compiler's report of its passes."""
    lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines()]
    said = [line for line in lines if line and not line.startswith(("Failed in", "During:", "^", "<source"))]
    return "; ".join(said[:4])


@kernel
def by_submission(view: View, now: float, chosen: Ints, key: Floats) -> None:
    """Rank: first come, first served."""
    for k in range(len(chosen)):
        key[k] = 0.0


@kernel
def one_group(view: View, slot: int) -> int:
    """Group: the same for all."""
    return 0


@kernel
def nobody_left_out(state: State, number: int, keys: Floats) -> int:
    """Share: users have none, and it is never called."""
    return 0


@kernel
def greedy(view: View, now: float, grants: Records[Grant], again: Records[Again]) -> int:
    """Give each job in turn as many of the remaining units as it can use, or none if they are too few for it."""
    left = view.pool[0].units
    line = view.order[0]
    count = 0
    for place in range(view.groups[0].head, view.groups[0].tail):
        slot = line[place]
        job = view.jobs[slot]
        units = min(left, float(job.max_units))
        if units >= job.least:
            grants[count].job = slot
            grants[count].units = units
            count += 1
            left -= units
            if left <= 0.0:
                break
    return count
