"""A policy for nodes: a queue order, a placement rule, the choice of victims, and backfill.

Three compiled hooks, each of which gets many jobs or nodes at once; the smaller value goes first:

``rank(view, now, chosen, key)``
    writes into key[k] the rank of the waiting job in slot chosen[k]. Called when a job begins to wait, and with
    `dynamic` for all waiting jobs at every scheduling pass.
``place(view, nodes, slot, fitting, score)``
    writes into score[k] the score of node fitting[k] for the next task of the job. `nodes` may describe a future
    cluster: read free resources there, not in the view. Infinity is no veto: the only node with room is taken without
    a score.
``evict(view, now, slot, draw, chosen, score)``
    writes into score[k] the score of the running job in slot chosen[k] as a victim for the one in `slot`: jobs are
    taken from the smallest score on until there is room, and never those with infinity. `draw` is the number of this
    decision, for policies that draw lots (`orders.lot`).

A hook reads its view and writes only its output: a user's hook that sets a field of a record is refused before it
runs, `chosen` and `fitting` are copies, a missing answer counts as none, and the effect of answers is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

import numpy as np

from betimes.cluster import Cluster
from betimes.core.nodes.columns import NodesState, NodesView
from betimes.core.nodes.machines.provisioning import order_machines
from betimes.core.nodes.machines.wait_or_rent import begin_to_wait, preempt_or_rent, stop_waiting
from betimes.core.nodes.passes.backfilling import reserve
from betimes.core.nodes.passes.empty_machines import fill_empty
from betimes.core.nodes.passes.preemption import NO_PLAN, preempt
from betimes.core.nodes.passes.reservations import start_as_reserved
from betimes.core.nodes.passes.schedule import share
from betimes.core.nodes.passes.slurm_backfill import backfill_as_slurm
from betimes.core.nodes.rules import CONSERVATIVE, EASY, SKIP, SLURM, NodesRules
from betimes.core.nodes.wait_predictor import no_predictor
from betimes.core.planning import Planner
from betimes.core.status import DONE
from betimes.errors import PolicyError
from betimes.kernels import Floats, Ints, full_kernel, hook, is_hook_ready, kernel
from betimes.policies.declaring import check_declaration, check_reads_only, is_users
from betimes.policies.hooks import SAID, Parameter, Value, compiled
from betimes.policies.nodes.orders import ORDERS, first_come, highest_level
from betimes.policies.nodes.placement import RULES
from betimes.policies.nodes.size_classes import SIZE_CLASSES
from betimes.policies.nodes.wait_model import WaitModel

BACKFILLS = {"easy": EASY, "conservative": CONSERVATIVE, "slurm": SLURM}
RESERVING = {"conservative": start_as_reserved, "slurm": backfill_as_slurm}

MOST = 1e9  # limit of jobs in a window and of preemptions of a job

ORDER = Parameter(
    "order",
    "which waiting job goes first; random: lots drawn by the seed",
    "fifo",
    choices=tuple(name for name, order in ORDERS.items() if not order.parameters),
)
PLACEMENT = Parameter(
    "placement",
    "which of the nodes with room: the first, the fullest (by all resources, or by GPUs, then cores), the emptiest, or "
    "the tightest row of them that suffices",
    "best",
    choices=tuple(RULES),
)
BACKFILL = Parameter(
    "backfill",
    "which jobs may start past one that does not fit: none, any, or those that do not delay the first (easy) or any",
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
TRIALS = Parameter(
    "trials",
    "what a trial job does that finds no room: it waits or rents as any other, or it goes first, and one best-effort "
    "job makes room as under fitgpp, unless a rented machine would be up earlier",
    "wait",
    choices=("wait", "room"),
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
    # Who makes room for trial jobs where the parameter `trials` says so.
    room: Any = None
    backfill: str = "strict"  # unless there is a parameter of that name
    by_priority: bool = False
    later_first: bool = False  # among victims of equal score the one submitted last goes first
    provision: Any = None  # the number of machines to rent, at ticks
    wait: Any = None  # until when a job waits before a machine is rented for it alone
    # Decides instead of the passes.
    planner: Callable[[dict[str, Value | None], Cluster], Planner] | None = None
    # Whether a job that fits on an empty machine starts there between its planner's rounds, by the parameters.
    fills: Callable[[dict[str, Value | None]], bool] | None = None
    rents_nothing: bool = False  # its planner leaves machines on offer alone
    members: Callable[[dict[str, Value | None]], Sequence[Member]] | None = None  # policies that take turns
    unproven: Path | None = None  # the file that `loading.mark_proven` creates

    @property
    def is_users(self) -> bool:
        """Whether any of its hooks is a user's."""
        own = (self.rank, self.place, self.evict, self.room, self.provision, self.wait, self.planner)
        return any(is_users(hook) for hook in own)

    def rules(self, values: dict[str, Value | None], learns: bool = False) -> NodesRules:
        """The policy's rules for the engine with these parameters and compiled hooks; raises PolicyError.

        learns: beliefs are drawn from history. If policies take turns, the rules are those of the first, and the hooks
        of all are compiled.
        """
        if self.members is not None:
            return rules_in_turn(self.in_turn(values), learns)[0]
        backfill = values.get("backfill", self.backfill)
        window = self._whole(values, "window", 0)
        if backfill == "strict":
            if window > 0:
                raise PolicyError(
                    f"policy {self.name}, parameter window: no job goes ahead with backfill=strict; leave it out, "
                    "or choose skip-over, easy or conservative"
                )
            window = 1
        elif self.evict is not None:
            raise PolicyError(
                f"policy {self.name}, parameter backfill: who makes room is only asked in strict order, not with "
                f"{backfill}; leave it out"
            )
        self._check_trials(values, str(backfill))
        if values.get("requeue") == "tail" and self._order(values) != "fifo":
            raise PolicyError(
                f"policy {self.name}, parameter requeue: there is an end of the queue only with order=fifo, not with "
                f"{'trials=room' if _makes_room(values) else values.get('order')}; leave it out"
            )
        order = ORDERS.get(self._order(values))
        if self.rank is None and order is not None and order.parameters == ():
            self._check_no_classes(values)
        rule = RULES.get(str(values.get("placement", "best")) if self.place is None else "")
        hooks = self._hooks(values)
        for function in hooks.values():
            check_reads_only(self.name, function)
        model = self.wait_model(values)
        rules = NodesRules(
            ranked=self.rank is not None or (order is not None and order.rank is not first_come),
            dynamic=self.dynamic or (self.rank is None and order is not None and order.dynamic),
            by_level=(self.rank or (order and order.rank)) is highest_level,
            backfill=BACKFILLS.get(str(backfill), SKIP),
            depth=self._whole(values, "depth", 0),
            horizon_s=_number_of(values, "horizon") or math.inf,
            resolution_s=_number_of(values, "resolution"),
            precision_s=_number_of(values, "precision"),
            window=window,
            spreads=self.spreads if self.place is not None or rule is None else rule.spreads,
            preempts=self.preempts(values),
            most_preemptions=self._whole(values, "P", 0),
            trims=values.get("trim", "true") == "true",
            planned=self.planner is not None,
            fills=self._fills(values),
            tick_s=self._seconds(values, "tick") if self.provision is not None else 0.0,
            waits=self.wait is not None,
            foresees=values.get("waits") == "oracle",
            observes=values.get("waits") == "learned",
            learned=False,
            plays=values.get("waits") == "simulated",
            **no_predictor(),
            requeues_last=values.get("requeue") == "tail",
            speculate_s=self._seconds(values, "t") if values.get("lengths") == "speculate" else math.inf,
            by_core_time=values.get("length") == "core_time",
            learns=learns,
            later_first=self.later_first,
            **{name: compiled(self.name, function, NodesRules, name) for name, function in hooks.items()},
            **{name: hook(function, NodesRules, name) for name, function in self._parts(values).items()},
        )
        return rules if model is None else model.into(rules)

    def in_turn(self, values: dict[str, Value | None]) -> Sequence[Member]:
        """The policies that take turns with these parameters; of any other policy, itself alone."""
        return [Member(self.name, self, values)] if self.members is None else self.members(values)

    def rents(self, values: dict[str, Value | None]) -> bool:
        """Whether it may rent machines on offer with these parameters; for other policies offers do not exist."""
        return self.rents_alone(values) or self.shares_rented(values)

    def rents_alone(self, values: dict[str, Value | None]) -> bool:
        """Whether it rents machines for one job alone."""
        return any(each.policy.wait is not None for each in self.in_turn(values))

    def shares_rented(self, values: dict[str, Value | None]) -> bool:
        """Whether it rents machines that jobs share."""
        return any(
            each.policy.provision is not None
            or (each.policy.planner is not None and not each.policy.rents_nothing)
            for each in self.in_turn(values)
        )

    def preempts(self, values: dict[str, Value | None]) -> bool:
        """Whether it, or a member that takes turns, preempts jobs with these parameters."""
        return any(each.policy._evict(each.values) is not None for each in self.in_turn(values))

    def plans(self, values: dict[str, Value | None]) -> bool:
        """Whether it, or a member that takes turns, plans in rounds with these parameters."""
        return any(each.policy.planner is not None for each in self.in_turn(values))

    def planner_of(self, values: dict[str, Value | None], cluster: Cluster) -> Planner | None:
        """A planner with these parameters for a cluster; None: the policy does not plan in rounds."""
        return None if self.planner is None else self.planner(values, cluster)

    def is_ready(self, values: dict[str, Value | None]) -> bool:
        """Whether its hooks with these parameters are in the cache of compiled kernels."""
        if self.members is not None:
            return all(each.policy.is_ready(each.values) for each in self.in_turn(values))
        needed = self._hooks(values) | self._parts(values)
        return all(is_hook_ready(each, NodesRules, name) for name, each in needed.items())

    def wait_model(self, values: dict[str, Value | None]) -> WaitModel | None:
        """The model of waits that the parameters name; raises PolicyError."""
        path, learns = values.get("model"), values.get("waits") == "learned"
        if learns and not path:
            raise PolicyError(
                f"policy {self.name}, parameter waits: learned waits need a model; make one with `betimes "
                "policy learn-waits` and name it with model=FILE"
            )
        if path and not learns:
            raise PolicyError(
                f"policy {self.name}, parameter model: only with waits=learned; leave it out, or choose that"
            )
        return None if path is None else WaitModel.load(Path(str(path)))

    def _check_no_classes(self, values: dict[str, Value | None]) -> None:
        """Raise PolicyError if classes are set and the order has none."""
        for each in SIZE_CLASSES:
            if each in self.parameters and values.get(each.name, each.default) != each.default:
                raise PolicyError(
                    f"policy {self.name}, parameter {each.name}: only with order=wfq-order are jobs in classes; leave "
                    "it out, or choose that"
                )

    def _hooks(self, values: dict[str, Value | None]) -> dict[str, Any]:
        return {
            "rank": self.rank or ORDERS[self._order(values)].rank,
            "place": self.place or RULES[str(values.get("placement", "best"))].place,
            "evict": self._evict(values) or no_victim,
            "provision": self.provision or nothing,
            "wait": self.wait or forever,
        }

    def _parts(self, values: dict[str, Value | None]) -> dict[str, Any]:
        backfill = values.get("backfill", self.backfill)
        return {
            "share": no_room_made,
            "preempt": self._preempt(values),
            "start_as_reserved": RESERVING.get(str(backfill), nothing_to_do),
            "reserve": reserve if backfill == "easy" else no_room_made,
            "order_machines": order_machines if self.provision is not None else nothing_to_do,
            "fill": fill_empty if self._fills(values) else nothing_to_do,
            "begin_to_wait": begin_to_wait if self.wait is not None else never_waits,
            "stop_waiting": stop_waiting if self.wait is not None else never_waits,
        }

    def _evict(self, values: dict[str, Value | None]) -> Any:
        """Its choice of victims; None: no job is preempted."""
        return self.evict or (self.room if _makes_room(values) else None)

    def _preempt(self, values: dict[str, Value | None]) -> Any:
        if self._evict(values) is None:
            return no_room_made
        return preempt if self.wait is None else preempt_or_rent

    def _order(self, values: dict[str, Value | None]) -> str:
        """The name of the order of its queue: by level where room is made for trial jobs."""
        return "level" if _makes_room(values) else str(values.get("order", "fifo"))

    def _check_trials(self, values: dict[str, Value | None], backfill: str) -> None:
        """Raise PolicyError if other parameters contradict what is said of trial jobs, or need them to find room."""
        if not _makes_room(values):
            if TRIALS in self.parameters and values.get("P") != MOST_PREEMPTIONS.default:
                raise PolicyError(
                    f"policy {self.name}, parameter P: only with trials=room are jobs preempted; leave it out, or "
                    "choose that"
                )
            return
        if values.get("order", "fifo") not in ("fifo", "level"):
            raise PolicyError(
                f"policy {self.name}, parameter order: with trials=room trial jobs go first, and the others by "
                f"submission, not by {values.get('order')}; leave it out"
            )
        if backfill not in ("strict", "skip-over"):
            raise PolicyError(
                f"policy {self.name}, parameter backfill: with trials=room jobs leave for others that no reservation "
                f"knows of, so that {backfill} has none to rely on; choose strict or skip-over"
            )

    def _fills(self, values: dict[str, Value | None]) -> bool:
        return self.fills is not None and self.fills(values)

    def params(self, values: dict[str, Value | None]) -> Floats:
        """The parameters in the order declared, `View.params`, classes by size first; a choice is its index.

        If policies take turns, those of the first, with room for those of any other.
        """
        if self.members is not None:
            first, *others = [each.policy.params(each.values) for each in self.in_turn(values)]
            room = max(len(params) for params in (first, *others))
            return np.append(first, np.zeros(room - len(first)))
        if self.planner is not None:  # which has its own
            return np.zeros(1)
        return np.array(
            [
                _number(parameter, values[parameter.name])
                for parameter in sorted(self.parameters, key=lambda each: each not in SIZE_CLASSES)
            ]
            or [0.0]
        )

    def _seconds(self, values: dict[str, Value | None], name: str) -> float:
        value = values.get(name)
        if not isinstance(value, int | float):
            raise PolicyError(
                f"policy {self.name}, parameter {name}: needs a number of seconds, as in {name}=900"
            )
        return float(value)

    def _whole(self, values: dict[str, Value | None], name: str, default: int) -> int:
        value = values.get(name, default)
        if not isinstance(value, int | float) or value != int(value):
            raise PolicyError(f"policy {self.name}, parameter {name}: {value} is not a whole number")
        return int(value)


@dataclass(frozen=True)
class Member:
    """One of several policies that take turns: a policy with its parameters, under a short name."""

    name: str
    policy: NodesPolicy
    values: dict[str, Value | None]


def rules_in_turn(
    members: Sequence[Member], learns: bool = False, *, shared: bool = False
) -> list[NodesRules]:
    """The rules of policies that take turns; shared: among jobs of users who share. Raises PolicyError.

    If any of them rents machines for one job alone, all do so for a job that nothing else can run, or that asks for it.
    """
    rules = [each.policy.rules(each.values, learns) for each in members]
    if shared:
        rules = [sharing(each) for each in rules]
    renting = next((each for each in rules if each.waits), None)
    if renting is None:
        return rules
    waits = {"begin_to_wait": renting.begin_to_wait, "stop_waiting": renting.stop_waiting}
    return [each.replaced(waits=True, **waits) for each in rules]


def sharing(rules: NodesRules) -> NodesRules:
    """The rules of a policy where users share: the order changes while jobs wait."""
    return rules.replaced(dynamic=True, share=hook(share, NodesRules, "share"))


def ordering(**declared: Unpack[Declaration]) -> Callable[[Any], NodesPolicy]:
    """Make a policy of a function ``rank(view, now, chosen, key)``; `dynamic`: asked again at every pass."""
    return lambda function: _declared(
        function,
        "ordering",
        declared,
        (*SAID, "dynamic"),
        (BACKFILL, WINDOW, PLACEMENT),
        rank=full_kernel(function),
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
        place=full_kernel(function),
        spreads=declared.get("spreads", False),
    )


def eviction(**declared: Unpack[Declaration]) -> Callable[[Any], NodesPolicy]:
    """Make a policy of a function ``evict(view, now, slot, draw, chosen, score)``: the victims of trial jobs."""
    return lambda function: _declared(
        function,
        "eviction",
        declared,
        SAID,
        (MOST_PREEMPTIONS, TRIM, PLACEMENT),
        rank=ORDERS["level"].rank,
        evict=full_kernel(function),
    )


class Declaration(TypedDict, total=False):
    """The arguments of the three decorators; `name` is by default the function's."""

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


def _makes_room(values: dict[str, Value | None]) -> bool:
    """Whether trial jobs find room under a policy that leaves this to its parameters."""
    return values.get(TRIALS.name) == "room"


def _number_of(values: dict[str, Value | None], name: str) -> float:
    value = values.get(name, 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def _number(parameter: Parameter, value: Value | None) -> float:
    if parameter.choices:
        return -1.0 if value is None else float(parameter.choices.index(str(value)))
    if parameter.is_text:
        return math.nan
    if not isinstance(value, int | float):
        raise PolicyError(f"parameter {parameter.name}: needs a number, as in {parameter.name}=1")
    return float(value)


@kernel
def no_victim(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """Evict: no job makes room."""
    for k in range(len(chosen)):
        score[k] = math.inf


@kernel
def nothing(view: NodesView, now: float, waiting: Ints, orders: Ints) -> None:
    """Provision: no machine is rented."""


@kernel
def forever(view: NodesView, now: float, slot: int) -> float:
    """Wait: for owned machines, without limit."""
    return math.inf


@kernel
def no_room_made(state: NodesState, rules: NodesRules, slot: int) -> int:
    """Preempt, or reserve: for a policy that does neither."""
    return NO_PLAN


@kernel
def nothing_to_do(state: NodesState, rules: NodesRules) -> int:
    """A part of the engine that the policy does not use."""
    return DONE


@kernel
def never_waits(state: NodesState, rules: NodesRules, slot: int) -> int:
    """Begin, or stop, to wait: for a policy that rents no machine for a job alone; never called."""
    return DONE
