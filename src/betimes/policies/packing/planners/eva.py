"""Eva: Full or Partial Reconfiguration, whichever pays, every round. Source: Eva (EuroSys'25), sections 3 and 4."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from betimes.errors import PolicyError
from betimes.policies.packing.catalogue import InstanceType
from betimes.policies.packing.matching import match
from betimes.policies.packing.plan import Bin, Plan, changes
from betimes.policies.packing.planners.exact import Solver, covered, covering_of
from betimes.policies.packing.planners.reconfiguration import (
    DownSizing,
    FillRunning,
    full_reconfiguration,
    partial_reconfiguration,
)
from betimes.policies.packing.problem import Machine, Problem, Round
from betimes.policies.packing.throughput import DEFAULT_PAIR, Meaning, Throughput, ThroughputTable
from betimes.policies.packing.valuation import Penalty, Valuation, valued

LEAST_USD = 1e-6  # a saving: below it is rounding

Only = Literal["both", "full", "partial"]

FullPlanner = Literal["heuristic", "exact"]
"""The planner of Full Reconfigurations: Algorithm 1 alone, or the better of Algorithm 1 and the cheapest covering."""

_VALUES = {
    "fill_running": get_args(FillRunning),
    "down_sizing": get_args(DownSizing),
    "table": get_args(Meaning),
    "penalty": get_args(Penalty),
    "only": get_args(Only),
    "planner": get_args(FullPlanner),
}


@dataclass(frozen=True)
class Rules:
    """Switches between Eva as published, as released, and improved; the defaults are the paper's.

    Raises PolicyError for a value that a switch does not have.
    """

    fill_running: FillRunning = "never"
    down_sizing: DownSizing = "never"
    table: Meaning = "lower-bound"
    penalty: Penalty = "job"  # of a task that slows its siblings down
    penalty_everywhere: bool = True  # not only in Algorithm 1
    honest_events: bool = True
    poisson: bool = False  # the exact horizon of Poisson events
    matching: bool = False  # the assignment to running machines with the fewest moves, instead of refilling
    keep_running: bool = False  # a task stays on its old machine until the new one is up
    rounded: bool = False  # to cents, before the two plans are compared
    only: Only = "both"
    planner: FullPlanner = "heuristic"
    ends_believed: bool = False  # a task counts, and a machine costs, only until its jobs are believed to end
    least_saving_usd_per_h: float = 0.0  # of a plan that moves jobs, over one that moves none; 0: any

    def __post_init__(self) -> None:
        for switch, values in _VALUES.items():
            if getattr(self, switch) not in values:
                raise PolicyError(
                    f"eva, switch {switch}: expected {' or '.join(values)}, found {getattr(self, switch)!r}"
                )
        if not self.least_saving_usd_per_h >= 0:
            raise PolicyError(
                f"eva, least_saving: expected USD an hour from 0, found {self.least_saving_usd_per_h}"
            )

    def with_(self, **switches: Any) -> Rules:
        """The rules with some switches changed; raises PolicyError for an unknown switch or a bad value."""
        known = [each.name for each in fields(self)]
        for name in switches:
            if name not in known:
                raise PolicyError(f"eva has no switch {name}; it has {', '.join(known)}")
        return replace(self, **switches)


RULES: dict[str, Rules] = {
    "paper": Rules(),
    "released": Rules(
        fill_running="always",
        down_sizing="new",
        table="mean",
        penalty="own",
        penalty_everywhere=False,
        honest_events=False,
        rounded=True,
    ),
    "improved": Rules(
        fill_running="cost-test",
        down_sizing="reuse",
        table="fitted",
        matching=True,
        keep_running=True,
        ends_believed=True,
    ),
}


@dataclass(frozen=True)
class Weighing:
    """The inputs of a round's decision: savings (USD an hour) and costs of moving (USD) of both plans, and the expected
    lifetime of a configuration.
    """

    full_usd_per_h: float
    partial_usd_per_h: float
    full_usd: float
    partial_usd: float
    lasts_s: float
    full: bool


@dataclass
class Coverings:
    """Counts of Full Reconfigurations that asked for a covering, got one in time, and adopted it."""

    asked: int = 0
    found: int = 0
    adopted: int = 0


class Eva:
    """The planner: it learns the throughput table and the rate of events from round to round.

    `rules` is paper, released or improved, or a `Rules`. `known` are throughputs used instead of a learnt table.
    `weighed` is the last round's decision, None if there was no choice: a Full is only planned if it may be adopted.
    With the exact planner `limit_s` is the wall-clock limit of a covering, `coverings` counts them, and plans may
    depend on the machine's speed. Raises PolicyError for unknown rules.
    """

    def __init__(
        self,
        rules: str | Rules = "improved",
        *,
        default_pair: float = DEFAULT_PAIR,
        known: Throughput | None = None,
        limit_s: float = 2.0,
    ) -> None:
        if isinstance(rules, str):
            if rules not in RULES:
                raise PolicyError(f"eva: there are no rules {rules!r}; there are {', '.join(RULES)}")
            rules = RULES[rules]
        self.rules = rules
        self.table = ThroughputTable(default_pair, rules.table)
        self.throughput: Throughput = self.table if known is None else known
        self.estimates = Estimates(rules.honest_events)
        self.weighed: Weighing | None = None
        self.limit_s = limit_s
        self.coverings = Coverings()
        self._solver: Solver | None = None
        self._alone_usd_per_h: dict[int, float] = {}
        self._packing: Valuation | None = None
        self._beside: Valuation | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy weighs what its rounds need anew, and does not take along all that was weighed before."""
        return {**self.__dict__, "_packing": None, "_beside": None}

    def plan(self, round_: Round) -> Plan:
        """The machines to have from now on. Raises ClusterError for a task that fits no type."""
        rules, problem = self.rules, round_.problem
        self.table.observe_round(problem, round_.reports)
        self.estimates.observe(round_)
        packing, beside = self._valuations(problem)
        self._price_jobs(packing)
        unpinned = [each for each in problem.machines if each.id not in problem.pinned]
        full = partial = None
        if rules.only == "full" or (rules.only == "both" and self.estimates.may_adopt):
            full = Plan(
                self._matched(self._full(packing, beside), unpinned, packing), rules.keep_running, "full"
            )
        if rules.only != "full":
            partial = self._partial_plan(packing, beside, unpinned)
        plan = self._chosen(round_, beside, full, partial)
        if rules.least_saving_usd_per_h > 0 and _moves(plan, problem):
            still = self._partial_plan(packing, beside, unpinned, moves=False)
            saves = self._savings(plan, beside) - self._savings(still, beside)
            plan = plan if saves >= rules.least_saving_usd_per_h else still
        self.estimates.adopted(full=plan is full)
        return plan

    def _partial_plan(
        self, packing: Valuation, beside: Valuation, unpinned: Sequence[Machine], *, moves: bool = True
    ) -> Plan:
        bins = self._partial(packing, beside, moves=moves)
        kept = {each.machine for each in bins}
        bins = self._matched(bins, [each for each in unpinned if each.id not in kept], packing)
        return Plan(bins, self.rules.keep_running, "partial")

    def _chosen(self, round_: Round, beside: Valuation, full: Plan | None, partial: Plan | None) -> Plan:
        """The plan that pays more, or the only one."""
        self.weighed = None
        if full is None or partial is None:
            plan = full or partial
            assert plan is not None
            return plan
        self.weighed = self._weigh(round_, beside, full, partial)
        return full if self.weighed.full else partial

    def _valuations(self, problem: Problem) -> tuple[Valuation, Valuation]:
        """The valuation of tasks to be packed, and that of tasks in place."""
        changed, everywhere = self.table.take_changed(), self.rules.penalty_everywhere
        self._packing = valued(self._packing, problem, self.throughput, self.rules.penalty, changed)
        if everywhere:
            return self._packing, self._packing
        self._beside = valued(self._beside, problem, self.throughput, "none", changed)
        return self._packing, self._beside

    def _full(self, packing: Valuation, beside: Valuation) -> tuple[Bin, ...]:
        rules = self.rules
        bins = full_reconfiguration(
            packing,
            fill_running=rules.fill_running,
            down_sizing=rules.down_sizing,
            refill=not self._matches,
            beside=beside,
        )
        return bins if rules.planner == "heuristic" else self._cheaper(bins, beside)

    def _cheaper(self, bins: tuple[Bin, ...], valuation: Valuation) -> tuple[Bin, ...]:
        """The bins, or the cheapest covering of those not on pinned machines if that saves more."""
        problem = valuation.problem
        if self._solver is None or self._solver.catalogue != problem.catalogue:
            self._solver = Solver(problem.catalogue, self.limit_s)
        stay = tuple(each for each in bins if each.machine in problem.pinned)
        moving = tuple(each for each in bins if each.machine not in problem.pinned)
        if not moving:
            return bins
        covering = covering_of(moving, problem, self._solver)
        self.coverings.asked += 1
        if covering is None:
            return bins
        self.coverings.found += 1
        other = (*stay, *covered(covering, moving, problem))
        if savings_usd_per_h(Plan(other), valuation) <= savings_usd_per_h(Plan(bins), valuation) + 1e-6:
            return bins
        self.coverings.adopted += 1
        return other

    @property
    def _matches(self) -> bool:
        """Whether bins are assigned to running machines; those of a covering have no machines yet."""
        return self.rules.matching or self.rules.planner == "exact"

    def _partial(self, packing: Valuation, beside: Valuation, *, moves: bool) -> tuple[Bin, ...]:
        rules = self.rules
        return partial_reconfiguration(
            packing,
            fill_running=rules.fill_running,
            down_sizing=rules.down_sizing,
            refill=not self._matches,
            beside=beside,
            moves=moves,
        )

    def _matched(
        self, bins: tuple[Bin, ...], free: Iterable[Machine], valuation: Valuation
    ) -> tuple[Bin, ...]:
        if not self._matches:
            return bins
        stay = tuple(each for each in bins if each.machine is not None)
        return (*stay, *match([each for each in bins if each.machine is None], free, valuation))

    def _weigh(self, round_: Round, valuation: Valuation, full: Plan, partial: Plan) -> Weighing:
        lasts_s = self.estimates.lasts_s(round_.now_s, poisson=self.rules.poisson)
        s_full, s_partial = self._savings(full, valuation), self._savings(partial, valuation)
        m_full, m_partial = self._move_usd(full, round_.problem), self._move_usd(partial, round_.problem)
        if self.rules.rounded:
            # The released code compares two totals rounded to cents.
            hours = lasts_s / 3600.0
            chosen = round(s_full * hours - m_full, 2) > round(s_partial * hours - m_partial, 2)
        elif self.rules.ends_believed:
            saves_usd = self._believed_usd(full, partial, valuation, lasts_s)
            chosen = saves_usd > m_full - m_partial + LEAST_USD
        else:
            chosen = prefers_full(s_full, s_partial, m_full, m_partial, lasts_s)
        return Weighing(s_full, s_partial, m_full, m_partial, lasts_s, chosen)

    def _savings(self, plan: Plan, valuation: Valuation) -> float:
        cost = plan.usd_per_h(valuation.catalogue)
        return savings_usd_per_h(plan, valuation) + (cost - round(cost, 2) if self.rules.rounded else 0.0)

    def _believed_usd(self, plan: Plan, other: Plan, valuation: Valuation, lasts_s: float) -> float:
        """The saving of a plan over another, USD, within `lasts_s` and until its jobs are believed to end."""
        same = {*plan.bins} & {*other.bins}
        mine, its = (
            sum(lasting_usd(each, valuation, lasts_s) for each in one.bins if each not in same)
            for one in (plan, other)
        )
        return mine - its

    def _move_usd(self, plan: Plan, problem: Problem) -> float:
        changed = changes(plan, problem)
        rented = [problem.catalogue.named(plan.bins[number].type) for number in changed.rented]
        # In the order of arrival, so that the sum is the same in every process.
        moved = [job for job in problem.jobs if job in changed.jobs]
        return move_usd(moved, problem, self._alone_usd_per_h, rented)

    def _price_jobs(self, valuation: Valuation) -> None:
        """Record the price of each job alone, as of its first round."""
        known = self._alone_usd_per_h
        self._alone_usd_per_h = {
            job: known[job] if job in known else self._price_job(valuation, tasks)
            for job, tasks in valuation.problem.jobs.items()
        }

    def _price_job(self, valuation: Valuation, tasks: tuple[int, ...]) -> float:
        if len(tasks) == 1:
            return valuation.catalogue.types[
                valuation.groups[valuation.group_of[tasks[0]]].price_type
            ].usd_per_h
        problem = valuation.problem
        unplaced = (replace(problem.task[task], machine=None, pinned=False) for task in tasks)
        alone = Valuation(Problem(problem.catalogue, tuple(unplaced)), self.throughput, self.rules.penalty)
        bins = full_reconfiguration(alone, down_sizing=self.rules.down_sizing)
        return Plan(bins).usd_per_h(problem.catalogue)


def _moves(plan: Plan, problem: Problem) -> bool:
    """Whether the plan moves a task that is on a machine."""
    return any(move.from_machine is not None for move in changes(plan, problem).moves)


def savings_usd_per_h(plan: Plan, valuation: Valuation) -> float:
    """A plan's savings an hour: the worth of its machines' tasks, less the machines' price (`S` of equation 1)."""
    place = valuation.catalogue.place
    worth = sum(valuation.value(each.tasks, place[each.type]) for each in plan.bins)
    return worth - plan.usd_per_h(valuation.catalogue)


def lasting_usd(each: Bin, valuation: Valuation, lasts_s: float) -> float:
    """A bin's savings within `lasts_s`, USD: its machine is kept until its last task is believed to end.

    A task of which no run time is believed runs on.
    """
    place, task = valuation.catalogue.place[each.type], valuation.problem.task
    price = valuation.catalogue.types[place].usd_per_h
    left_s = {one: min(task[one].remaining_s, lasts_s) for one in each.tasks}
    left_s = {one: lasts_s if math.isnan(s) else s for one, s in left_s.items()}
    total, since_s = 0.0, 0.0
    for until_s in sorted(set(left_s.values())):
        running = [one for one, s in left_s.items() if s > since_s]
        total += (valuation.value(running, place) - price) * (until_s - since_s)
        since_s = until_s
    return total / 3600.0


# --- Full or Partial: the quantitative criterion and its estimates. Source: Eva, section 4.5, equation 1 ---


def horizon_s(events_per_s: float, full_frac: float, *, poisson: bool = False) -> float:
    """The expected time until an event triggers a Full Reconfiguration, s.

    Published: -1 / (rate * ln(1 - p)), which replaces the number of events by its mean. With `poisson` 1 / (rate * p),
    which is exact for Poisson events. Infinity if nothing triggers, NaN for p outside 0 to 1.
    """
    if math.isnan(events_per_s) or not 0 <= full_frac <= 1:
        return math.nan
    if full_frac == 0 or events_per_s == 0:
        return math.inf
    if poisson:
        return 1.0 / (events_per_s * full_frac)
    return 0.0 if full_frac == 1 else -1.0 / (events_per_s * math.log1p(-full_frac))


def prefers_full(
    full_usd_per_h: float, partial_usd_per_h: float, full_usd: float, partial_usd: float, lasts_s: float
) -> bool:
    """Equation 1: savings over the lifetime, less the cost of moves, are strictly higher for Full than for Partial.

    False if `lasts_s` is NaN; differences below a millionth of a dollar, as by rounding, do not count.
    """
    hours = lasts_s / 3600.0
    return full_usd_per_h * hours - full_usd > partial_usd_per_h * hours - partial_usd + LEAST_USD


@dataclass
class Estimates:
    """The rate of events (arrivals and completions of jobs) and the share that triggered a Full, since the first round.

    An honest log has each event once, and only a round with an event may adopt a Full, as the paper has it. A job that
    could not be placed for some time after its submission arrives in the round that first has it.
    The released log counts a job that was starting or moving as a new one and then misses its end, and every round may
    adopt a Full.
    """

    honest: bool = True
    events: int = 0
    fulls: int = 0
    first_s: float = math.nan
    last_s: float = math.nan
    since_s: float = math.nan

    def __post_init__(self) -> None:
        self._known: frozenset[int] = frozenset()
        self._eventful = False
        self._asked_s = -math.inf  # the round before

    @property
    def may_adopt(self) -> bool:
        """Whether this round may adopt a Full."""
        return self._eventful or not self.honest

    def observe(self, round_: Round) -> None:
        """Take in the events since the round before."""
        problem = round_.problem
        if math.isnan(self.since_s):
            self.since_s = round_.now_s
        jobs = frozenset(problem.jobs)
        arrived = [problem.task[problem.jobs[job][0]].arrival_s for job in jobs - self._known]
        if self.honest:
            arrived = [at if at >= self._asked_s else round_.now_s for at in arrived]
        ended = [at for job, at in round_.finished.items() if self.honest or job in self._known]
        # A job that came and went between two rounds was never in a problem; its end still counts as an event.
        times = sorted(arrived + ended)
        if times:
            self.first_s = times[0] if self.events == 0 else self.first_s
            self.last_s = times[-1]
            self.events += len(times)
        self._eventful = bool(times)
        self._asked_s = round_.now_s
        if self.honest:  # one that is hidden for a while does not come anew
            self._known = (self._known | jobs) - round_.finished.keys()
        else:
            self._known = frozenset(_reconfigurable(problem))

    def adopted(self, *, full: bool) -> None:
        """Take in the decision of the round."""
        self.fulls += full

    @property
    def events_per_s(self) -> float:
        """The inverse of the mean time between events; NaN with fewer than two, or all at one instant."""
        span = self.last_s - self.first_s
        return (self.events - 1) / span if self.events > 1 and span > 0 else math.nan

    @property
    def full_frac(self) -> float:
        """The share of events that triggered a Full; the released log's may be above 1."""
        return self.fulls / max(1, self.events)

    def lasts_s(self, now_s: float, *, poisson: bool = False) -> float:
        """The expected lifetime of a configuration, s; the time so far while no event has triggered a Full."""
        if self.fulls == 0:
            return now_s - self.since_s
        return horizon_s(self.events_per_s, self.full_frac, poisson=poisson)


def move_usd(
    moved: Iterable[int],
    problem: Problem,
    alone_usd_per_h: Mapping[int, float],
    rented: Iterable[InstanceType],
) -> float:
    """The cost of a change: each moved job's pause at the job's price alone, and each new machine until it is up.

    `moved` are jobs; a job pauses for its slowest task. Source: `M` of equation 1. The released code takes five minutes
    for any new machine.
    """
    pauses = 0.0
    for job in moved:
        pause_s = max(problem.task[task].migration_s for task in problem.jobs[job])
        pauses += pause_s * alone_usd_per_h[job] / 3600.0
    return pauses + sum(each.usd_per_h * each.up_after_s for each in rented) / 3600.0


def _reconfigurable(problem: Problem) -> Iterable[int]:
    return (
        job for job, tasks in problem.jobs.items() if not any(problem.task[task].pinned for task in tasks)
    )
