"""What a policy for nodes is: an order, a rule of placement, who makes room, and how gaps are filled.

Three hooks, each compiled and each given many jobs or nodes at once; the smaller value goes first:

``rank(view, now, chosen, key)``
    writes into key[k] the rank of the waiting job in slot chosen[k]. Asked when a job begins to wait, and with
    `dynamic` for all waiting jobs at every scheduling pass.
``place(view, nodes, slot, fitting, score)``
    writes into score[k] how good node fitting[k] is for the next task of the job. `nodes` may be a sketch of
    what the cluster will be: read what is free there, not in the view. Infinity is no veto: a node that is the only
    one with room is taken without being asked about.
``evict(view, now, slot, draw, chosen, score)``
    writes into score[k] whether the running job in slot chosen[k] should make room for the one in `slot`:
    jobs are taken from the smallest score on until there is room, and never those with infinity. `draw` is the
    number of this decision, for those that draw lots (`lots.lot`).

A hook reads its view and writes nothing but its output: a user's hook that sets a field of a record is refused before
it runs, what it is asked about is a copy, an answer left out counts as none, and where its answers lead is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

import numpy as np

from betimes.core.columns import Floats, Ints
from betimes.core.kernel import (
    INTERPRETED,
    compile_for,
    first_words,
    function_type,
    kernel,
    lean_kernel,
    type_of,
)
from betimes.core.nodes.columns import NodesState, NodesView, new_nodes_state
from betimes.core.nodes.room import view_of
from betimes.core.nodes.schedule import CONSERVATIVE, EASY, SKIP, Rules
from betimes.errors import PolicyError
from betimes.policies.declaring import check_declaration, check_reads_only, is_users, located
from betimes.policies.hooks import SAID, Parameter, Value
from betimes.policies.nodes.orders import ORDERS, first_come
from betimes.policies.nodes.placement import RULES

MOST = 1e9  # jobs in a window, preemptions of a job

ORDER = Parameter("order", "which waiting job goes first", "fifo", choices=tuple(ORDERS))
PLACEMENT = Parameter(
    "placement",
    "which of the nodes with room: the first, the fullest or the emptiest",
    "best",
    choices=tuple(RULES),
)
BACKFILL = Parameter(
    "backfill",
    "who may start while one before it does not fit: nobody, anybody, or who does not delay the first (easy) or any",
    "strict",
    choices=("strict", "skip-over", "easy", "conservative"),
)
WINDOW = Parameter(
    "window",
    "jobs passed over before the rest of the queue is left alone; 0: no limit",
    0.0,
    low=0.0,
    high=MOST,
)
MOST_PREEMPTIONS = Parameter("P", "preemptions that protect a job from further ones", 1.0, low=0.0, high=MOST)
TRIM = Parameter(
    "trim", "leave alone who is not needed after all; false: as published", "true", choices=("true", "false")
)
"""The parameters that several policies share."""


@dataclass(frozen=True)
class NodesPolicy:
    """A scheduling policy for the nodes engine."""

    name: str
    summary: str
    question: str
    paper: str
    parameters: tuple[Parameter, ...] = (PLACEMENT,)
    rank: Any = None  # by default the parameter `order`, or by submission
    dynamic: bool = False
    place: Any = None  # by default the parameter `placement`
    spreads: bool = False
    evict: Any = None
    backfill: str = "strict"  # unless there is a parameter of that name
    by_priority: bool = False
    later_first: bool = False  # of victims with the same score the one submitted last goes first
    unproven: Path | None = None  # what `loading.mark_proven` leaves behind

    @property
    def is_users(self) -> bool:
        """Whether any of its hooks is no part of Betimes."""
        return any(is_users(hook) for hook in (self.rank, self.place, self.evict))

    def rules(self, values: dict[str, Value | None], learns: bool = False) -> Rules:
        """What a pass has to know of the policy with these parameters; raises PolicyError."""
        backfill = values.get("backfill", self.backfill)
        window = self._whole(values, "window", 0)
        if backfill == "strict":
            if window > 0:
                raise PolicyError(
                    f"policy {self.name}, parameter window: nobody goes ahead with backfill=strict; leave it out, "
                    "or choose skip-over, easy or conservative"
                )
            window = 1
        elif self.evict is not None:
            raise PolicyError(
                f"policy {self.name}, parameter backfill: who makes room is only asked in strict order, not with "
                f"{backfill}; leave it out"
            )
        order = ORDERS.get(str(values.get("order", "fifo")))
        rule = RULES.get(str(values.get("placement", "best")))
        return Rules(
            ranked=self.rank is not None or (order is not None and order.rank is not first_come),
            dynamic=self.dynamic or (self.rank is None and order is not None and order.dynamic),
            backfill={"easy": EASY, "conservative": CONSERVATIVE}.get(str(backfill), SKIP),
            window=window,
            spreads=self.spreads if self.place is not None or rule is None else rule.spreads,
            preempts=self.evict is not None,
            most_preemptions=self._whole(values, "P", 0),
            trims=values.get("trim", "true") == "true",
            learns=learns,
            later_first=self.later_first,
        )

    def params(self, values: dict[str, Value | None]) -> Floats:
        """The parameters in the order declared, `View.params`; of a choice, its place among the choices."""
        return np.array(
            [_number(parameter, values[parameter.name]) for parameter in self.parameters] or [0.0]
        )

    def hooks(self, values: dict[str, Value | None]) -> tuple[Any, Any, Any]:
        """The hooks `rank`, `place` and `evict` as compiled functions that the engine's loop takes as they are."""
        rank = self.rank or ORDERS[str(values.get("order", "fifo"))].rank
        place = self.place or RULES[str(values.get("placement", "best"))].place
        compiled: list[Any] = []
        for hook, signature in ((rank, RANK), (place, PLACE), (self.evict or nobody, EVICT)):
            check_reads_only(self.name, hook)
            try:
                compiled.append(compile_for(hook, signature))
            except (
                Exception
            ) as error:  # Numba raises all sorts of things about a function that it cannot compile
                raise PolicyError(
                    f"policy {self.name} ({located(hook)}) does not compile: {first_words(error)}"
                ) from error
        return compiled[0], compiled[1], compiled[2]

    def _whole(self, values: dict[str, Value | None], name: str, default: int) -> int:
        value = values.get(name, default)
        if not isinstance(value, int | float) or value != int(value):
            raise PolicyError(f"policy {self.name}, parameter {name}: {value} is not a whole number")
        return int(value)


def ordering(**declared: Unpack[Declaration]) -> Callable[[Any], NodesPolicy]:
    """Make a policy of a function ``rank(view, now, chosen, key)``; `dynamic`: asked again at every pass."""
    return lambda function: _declared(
        function,
        "ordering",
        declared,
        (*SAID, "dynamic"),
        (BACKFILL, WINDOW, PLACEMENT),
        rank=kernel(function),
        dynamic=declared.get("dynamic", False),
    )


def placement(**declared: Unpack[Declaration]) -> Callable[[Any], NodesPolicy]:
    """Make a policy of a function ``place(view, nodes, slot, fitting, score)``; `spreads`: gangs take nodes in turn."""
    return lambda function: _declared(
        function,
        "placement",
        declared,
        (*SAID, "spreads"),
        (ORDER, BACKFILL, WINDOW),
        place=kernel(function),
        spreads=declared.get("spreads", False),
    )


def eviction(**declared: Unpack[Declaration]) -> Callable[[Any], NodesPolicy]:
    """Make a policy of a function ``evict(view, now, slot, draw, chosen, score)``: who makes room for trial jobs."""
    return lambda function: _declared(
        function,
        "eviction",
        declared,
        SAID,
        (MOST_PREEMPTIONS, TRIM, PLACEMENT),
        rank=ORDERS["level"].rank,
        evict=kernel(function),
    )


class Declaration(TypedDict, total=False):
    """What the three decorators take; `name` is the function's unless it is given."""

    summary: Required[str]
    name: str
    question: str
    paper: str
    parameters: tuple[Parameter, ...]
    dynamic: bool
    spreads: bool


def _declared(
    function: Any,
    decorator: str,
    declared: Declaration,
    known: tuple[str, ...],
    shared: tuple[Parameter, ...],
    **hooks: Any,
) -> NodesPolicy:
    check_declaration(function, decorator, declared, known)
    return NodesPolicy(
        name=declared.get("name", function.__name__),
        summary=declared["summary"],
        question=declared.get("question", ""),
        paper=declared.get("paper", ""),
        parameters=(*declared.get("parameters", ()), *shared),
        **hooks,
    )


def _number(parameter: Parameter, value: Value | None) -> float:
    if parameter.choices:
        return float(parameter.choices.index(str(value)))
    if not isinstance(value, int | float):
        raise PolicyError(f"parameter {parameter.name}: needs a number, as in {parameter.name}=1")
    return float(value)


def empty_cluster() -> NodesState:
    """The smallest state: what the compiled functions' types are taken from."""
    return new_nodes_state(
        np.ones((1, 3), dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        units=1.0,
        restart_s=0.0,
        seed=0,
        by_priority=False,
        params=np.zeros(1),
        slots=1,
        placements=1,
    )


def _signatures() -> tuple[Any, Any, Any]:
    if INTERPRETED:
        return None, None, None
    from numba import float64, int64, void

    s = empty_cluster()
    view = type_of(view_of(s))
    return (
        void(view, float64, int64[::1], float64[::1]),
        void(view, type_of(s.nodes), int64, int64[::1], float64[::1]),
        void(view, float64, int64, int64, int64[::1], float64[::1]),
    )


RANK, PLACE, EVICT = _signatures()


def hook_types() -> tuple[Any, Any, Any]:
    """The types of the three hooks, as function pointers."""
    return function_type(RANK), function_type(PLACE), function_type(EVICT)


@lean_kernel
def nobody(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """Evict: nobody makes room."""
    for k in range(len(chosen)):
        score[k] = math.inf
