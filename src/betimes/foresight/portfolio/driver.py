"""A run under a portfolio: each selection simulates its policies and puts the best in force."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.core.nodes.rules import NodesRules
from betimes.core.status import DONE
from betimes.errors import BetimesError, PolicyError, PolicyViolation
from betimes.foresight.objectives import Objective
from betimes.foresight.portfolio.arrivals import MOST_JOBS, Arrivals, Draws
from betimes.foresight.portfolio.hindsight import Hindsight, Submitted, SubmittedSoFar
from betimes.foresight.portfolio.ledger import Ledger, Totals
from betimes.foresight.portfolio.lookahead import (
    Foreseen,
    Groups,
    Lookahead,
    PolicyFails,
    Simulated,
    Simulation,
    Successor,
    take_over,
)
from betimes.foresight.portfolio.objective import Aim, Cost, asked_for
from betimes.foresight.portfolio.selection import PREFERENCE, Limit, Rotation, surely_better, winner
from betimes.foresight.portfolio.utility import Utility
from betimes.kernels import Floats, Ints
from betimes.outcome import SelectionColumns
from betimes.policies.nodes.hooks import Member, NodesPolicy, rules_in_turn
from betimes.policies.nodes.portfolio import ARRIVALS, CANDIDATES, PAPER, preference
from betimes.policies.parsing import ChosenPolicy
from betimes.twin.nodes.planner_rounds import PlannerRounds
from betimes.twin.nodes.simulation import NodesSimulation

STRETCHES = 5
"""Default number of stretches of the past that a selection draws."""

Scenarios = Sequence[NDArray[Any] | None]
"""Jobs that may be submitted next: rows of `Arrival`; None: no jobs."""

FEW_JOBS = 20
"""With fewer finished jobs the totals of a run mean little."""

LOTS = 0x90F0  # sets the draws from the Poor apart from other draws of the seed


@dataclass(frozen=True)
class Settings:
    """How a portfolio selects: `period` ticks of `tick_s` apart, within a limit, by utility or an objective.

    published: by the utility of the waiting jobs alone, else by that of the whole run. shadow: nothing is put in force.
    workers: threads that simulate. expects_more: simulations include jobs that may come, and after a period the best
    member so far takes over. stretches: how many scenarios of such jobs are drawn from the past.
    """

    period: int
    tick_s: float
    limit: Limit
    utility: Utility
    ties: str
    published: bool = False
    shadow: bool = False
    objective: Objective | Cost | None = None
    workers: int = 1
    expects_more: bool = False
    stretches: int = STRETCHES

    @property
    def predicts(self) -> bool:
        """Whether jobs must be promised a finish."""
        return isinstance(self.objective, Objective) and self.objective.predicts

    @classmethod
    def of(cls, chosen: ChosenPolicy[NodesPolicy]) -> Settings:
        """From the parameters of a portfolio; raises PolicyError."""
        values = chosen.values
        numbers: dict[str, float] = {
            name: value for name, value in values.items() if isinstance(value, int | float)
        }
        for name in ("period", "budget", "workers", "stretches"):
            if name in numbers and numbers[name] != int(numbers[name]):
                raise PolicyError(
                    f"policy portfolio, parameter {name}: {numbers[name]:g} is not a whole number"
                )
        budget = numbers.get("budget")
        if budget is not None and "seconds" in numbers:
            raise PolicyError("policy portfolio: budget and seconds are both given; leave one of them out")
        objective = asked_for(str(values["objective"]), chosen.policy.rents(values))
        expects_more = values["rules"] == ARRIVALS and budget is None and "seconds" not in numbers
        if "stretches" in numbers and not (expects_more and objective is None and _rents_at_ticks(chosen)):
            raise PolicyError(
                "policy portfolio, parameter stretches: no jobs to come are drawn under another rule than arrivals, "
                "with a budget, seconds or an objective, or among members that rent no machines at ticks; leave it out"
            )
        return cls(
            int(numbers["period"]),
            numbers["tick"],
            int(budget) if budget is not None else numbers.get("seconds"),
            Utility(numbers["alpha"], numbers["beta"]),
            str(values["ties"]),
            values["rules"] == PAPER,
            values["shadow"] == "true",
            objective,
            int(numbers["workers"]),
            expects_more,
            int(numbers.get("stretches", STRETCHES)),
        )


class Reflection:
    """The scores and the choice of each selection."""

    def __init__(self) -> None:
        self._selections: list[tuple[float, int, int, str]] = []  # time, waiting jobs, simulations, chosen
        self._members: list[str] = []
        self._scores = array("d")

    def note(self, at_s: float, waiting: int, scores: dict[str, float], chosen: str) -> None:
        """Record a selection: the scores of the simulated members, NaN for those that failed."""
        self._selections.append((at_s, waiting, len(scores), chosen))
        self._members += scores
        self._scores.extend(scores.values())

    def columns(self) -> SelectionColumns:
        """All of it."""
        at_s, waiting, counts, chosen = zip(*self._selections, strict=True) if self._selections else [()] * 4
        of: Ints = np.repeat(np.arange(len(counts)), np.array(counts, dtype=np.int64))
        member = np.array(self._members, dtype=np.str_)
        return SelectionColumns(
            selection=of,
            at_s=np.array(at_s, dtype=np.float64)[of],
            waiting=np.array(waiting, dtype=np.int64)[of],
            member=member,
            score=np.array(self._scores),
            chosen=member == np.array(chosen, dtype=np.str_)[of],
        )


@dataclass(frozen=True)
class Choice:
    """The result of a selection. scores: of the simulated members, by name; NaN for those that failed."""

    at_s: float
    waiting: int
    scores: dict[str, float]
    foreseen: dict[str, Foreseen]
    member: int
    name: str


class Selector:
    """Chooses among members at each selection, in the twin and in the service; the caller puts the choice in force.

    aim: the criterion instead of utility. shared: users share, or have limits.
    """

    def __init__(
        self,
        policy: str,
        members: list[Member],
        settings: Settings,
        warn: Callable[[str], object],
        clock: Callable[[], float] = time.perf_counter,
        *,
        seed: int = 0,
        learns: bool = False,
        shared: bool = False,
        aim: Aim | None = None,
        arrivals: Draws | None = None,
    ) -> None:
        self._policy, self._members, self._settings, self._aim = policy, members, settings, aim
        self._warn, self._clock = warn, clock
        self.rules: list[NodesRules] = rules_in_turn(members, learns, shared=shared)
        self.params: list[Floats] = [member.policy.params(member.values) for member in members]
        self._groups = Groups(members, self.rules, self.params)
        rents = members[0].policy.provision is not None  # as all of them do, or none
        self._hindsight: Hindsight | None = None
        if settings.expects_more and aim is None and rents:
            arrivals = arrivals or Arrivals(seed, settings.stretches)
            everyone = self._groups.of(range(len(members)))
            self._hindsight = Hindsight(self.names, everyone, settings.utility)
        self._arrivals = arrivals
        lots = np.random.default_rng([seed, LOTS])
        self.rotation = Rotation(
            list(range(len(members))), settings.limit, lambda count: int(lots.integers(count))
        )
        self._preferred = _preferred(members) if settings.ties == PREFERENCE else []
        self.failed: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """The names of the members, by number."""
        return [member.name for member in self._members]

    @property
    def is_shadow(self) -> bool:
        """Whether choices are only reported."""
        return self._settings.shadow

    @property
    def smallest_wins(self) -> bool:
        """Whether scores are values of an objective, and not utilities."""
        return self._aim is not None

    @property
    def expects_more(self) -> bool:
        """Whether jobs that may come count, so that `choose` needs the jobs submitted so far."""
        return self._arrivals is not None

    def lookahead(self, run: Simulated, rounds: Sequence[PlannerRounds] = ()) -> Lookahead:
        """Simulations from a run or a snapshot; rounds: of the members' planners, by number, if members plan.

        Running jobs count, too, where they may be preempted or moved.
        """
        everyone = len(rounds) > 0 or any(each.policy.preempts(each.values) for each in self._members)
        return Lookahead(run, everyone, self._settings.workers, MOST_JOBS if self.expects_more else 0, rounds)

    def choose(
        self,
        lookahead: Lookahead,
        now_s: float,
        waiting: int,
        so_far: Totals,
        submitted: Submitted | None = None,
    ) -> Choice:
        """Simulate members from a snapshot of `lookahead`, and choose. Raises PolicyViolation if all fail.

        submitted: the jobs submitted by now, if the selector expects more.
        """
        scores_of: dict[str, float] = {}
        foreseen_of: dict[str, Foreseen] = {}
        job_s = lookahead.look()
        if self._aim is not None:
            self._aim.look(lookahead.run)
        best = self._best_so_far(submitted)
        successor = None if best is None else self._successor(best, now_s)
        scenarios: Scenarios = [None]
        if self._arrivals is not None and submitted is not None:
            scenarios = self._arrivals.draw(submitted.jobs, now_s)

        def simulate(members: Sequence[int]) -> dict[int, tuple[float | None, float]]:
            begun_s = self._clock()
            found = self._simulated(lookahead, members, successor, scenarios)
            taken_s = self._clock() - begun_s
            all_s = job_s + _mean_job_s(scenarios)
            scored: dict[int, tuple[float | None, float]] = {}
            worth: dict[tuple[Simulation, ...], tuple[Foreseen, float]] = {}  # many members do the same
            for member in members:
                name, simulations = self._members[member].name, found[member]
                scores_of[name], score = np.nan, None
                if simulations not in worth:
                    foreseen = _mean(simulations)
                    if isinstance(foreseen, PolicyFails):
                        scored[member] = self._score_of_failed(member, foreseen), taken_s / len(members)
                        continue
                    worth[simulations] = foreseen, self._score(foreseen, simulations[0], all_s, so_far)
                foreseen_of[name], score = worth[simulations]
                scores_of[name] = score if self._aim is None else -score
                scored[member] = score, taken_s / len(members)
            return scored

        scores = self.rotation.simulate(simulate)
        if scores and max(scores.values()) == -math.inf:
            raise PolicyViolation(
                f"policy {self._policy} at {now_s:g} s: under every member some of the jobs never start, with the "
                "nodes and the limits as they are"
            )
        if not scores:
            name, reason = next(iter(self.failed.items()))
            raise PolicyViolation(
                f"policy {self._policy} at {now_s:g} s: every member has failed; {name}: {reason}"
            )
        chosen = winner(scores, self._preferred)
        if best is not None and submitted is not None and scores[chosen] > scores.get(best, math.nan):
            chosen = self._confirmed(chosen, best, lookahead, now_s, job_s, so_far, submitted)
        return Choice(now_s, waiting, scores_of, foreseen_of, chosen, self._members[chosen].name)

    def _simulated(
        self,
        lookahead: Lookahead,
        members: Sequence[int],
        successor: Successor | None,
        scenarios: Scenarios,
    ) -> dict[int, tuple[Simulation, ...]]:
        """The simulation of each member in each scenario."""
        found: dict[int, list[Simulation]] = {member: [] for member in members}
        groups, ends = self._groups.of(members), self._aim is not None
        for coming in scenarios:
            for simulation in lookahead.play_all(groups, ends, successor, coming):
                for member in simulation.members:
                    found[member].append(simulation)
        return {member: tuple(simulations) for member, simulations in found.items()}

    def _confirmed(
        self,
        chosen: int,
        best: int,
        lookahead: Lookahead,
        now_s: float,
        job_s: float,
        so_far: Totals,
        submitted: Submitted,
    ) -> int:
        """The chosen member if it is surely better than the best so far in other stretches; else the best so far.

        Among many members that are about as good, the highest score is partly luck of the drawn stretches and is
        biased upwards. Stretches that did not take part in the choice have no such bias.
        """
        assert self._arrivals is not None
        scenarios = self._arrivals.draw(submitted.jobs, now_s, to_confirm=True)
        found = self._simulated(lookahead, (best, chosen), self._successor(best, now_s), scenarios)
        worth: dict[int, list[float]] = {best: [], chosen: []}
        for member, simulations in found.items():
            for coming, simulation in zip(scenarios, simulations, strict=True):
                if isinstance(simulation.foreseen, PolicyFails):
                    self._score_of_failed(member, simulation.foreseen)
                    return best if member == chosen else chosen
                all_s = job_s + _mean_job_s([coming])
                worth[member].append(self._score(simulation.foreseen, simulation, all_s, so_far))
        return chosen if surely_better(worth[chosen], worth[best]) else best

    def _best_so_far(self, submitted: Submitted | None) -> int | None:
        """The member that would have been best on the jobs so far, if any is known to be good."""
        if self._hindsight is None or submitted is None:
            return None
        return self._hindsight.best(submitted, tuple(self.failed))

    def _successor(self, best: int, now_s: float) -> Successor:
        """The best so far, which takes over in the simulations after the period."""
        at_s = now_s + self._settings.period * self._settings.tick_s
        return Successor(at_s, self.rules[best].replaced(learns=False), self.params[best])

    def _score_of_failed(self, member: int, failure: PolicyFails) -> float | None:
        """The score of a member whose simulation failed: the least in this selection; or null, and it is left out."""
        if failure.passes:
            return -math.inf
        name = self._members[member].name
        self.failed[name] = failure.reason
        self._warn(f"portfolio: {name} is left out from now on: in its simulation {failure.reason}")
        return None

    def _score(self, foreseen: Foreseen, simulation: Simulation, job_s: float, so_far: Totals) -> float:
        """The score of a member; larger is better."""
        if self._aim is not None:
            assert simulation.ended is not None
            return -self._aim.value(foreseen, *simulation.ended)
        if self._settings.published:
            return of_queue(self._settings.utility, job_s, foreseen)
        return of_run(self._settings.utility, so_far, job_s, foreseen)


def of_queue(utility: Utility, job_s: float, foreseen: Foreseen) -> float:
    """The published score: the utility of the waiting jobs alone (C.5)."""
    return utility.of(job_s, foreseen.machine_s, foreseen.slowdown)


def of_run(utility: Utility, so_far: Totals, job_s: float, foreseen: Foreseen) -> float:
    """The utility of the whole run up to the end of the waiting jobs.

    Paid machine time that is left then does not count as spent: later jobs can use it.
    """
    if so_far.jobs < FEW_JOBS:
        return of_queue(utility, job_s, foreseen)
    jobs = so_far.jobs + foreseen.jobs
    slowdown = (so_far.slowdown + foreseen.jobs * foreseen.slowdown) / jobs
    return utility.of(so_far.job_s + job_s, max(0.0, so_far.machine_s + foreseen.used_s), slowdown)


class Portfolio:
    """Selects among members for a run, and changes the run only by putting the chosen one's rules in force.

    arrivals: the caller's source of jobs that may come; by default the one given by the policy's `rules`.
    """

    def __init__(
        self,
        run: NodesSimulation,
        members: list[Member],
        settings: Settings,
        warn: Callable[[str], object],
        clock: Callable[[], float] = time.perf_counter,
        arrivals: Draws | None = None,
    ) -> None:
        self._run, self._settings = run, settings
        aim = None
        if settings.objective is not None:
            if settings.predicts and not run.options.predict:
                raise PolicyError(
                    f"policy portfolio, parameter objective: {settings.objective}: no job is promised anything in this "
                    "simulation; add --predict, or choose another objective"
                )
            aim = Aim(settings.objective, settings.published, float(run.jobs.submit_s[0]))
        self._selector = Selector(
            str(run.policy),
            members,
            settings,
            warn,
            clock,
            seed=run.options.seed,
            learns=run.rules.learns,
            shared=run.options.users is not None,
            aim=aim,
            arrivals=arrivals,
        )
        self._submitted = SubmittedSoFar(run) if self._selector.expects_more else None
        self._lookahead = self._selector.lookahead(run, run.rounds_in_turn)
        self._ledger = Ledger(run)
        self.reflection = Reflection()
        self._decides = 0  # the member whose rules the run has

    @property
    def rotation(self) -> Rotation:
        """The sets from which the members to simulate next are taken."""
        return self._selector.rotation

    @property
    def failed(self) -> dict[str, str]:
        """Members that are left out, each with the reason."""
        return self._selector.failed

    @property
    def is_shadow(self) -> bool:
        """Whether its choices are only reported."""
        return self._settings.shadow

    @property
    def predicts(self) -> bool:
        """Whether jobs must be promised a finish."""
        return self._settings.predicts

    def start(self) -> None:
        """Let the run ask for a selection at its first tick with waiting jobs."""
        self._run.state.cluster[0].select_s = 0.0
        self._run.select = self.select

    def select(self) -> None:
        """Simulate, choose, and put the chosen policy in force until the next selection."""
        state, selector, settings = self._run.state, self._selector, self._settings
        now_s, waiting = float(state.pool[0].now), int(state.cluster[0].waiting)
        submitted = None if self._submitted is None else self._submitted.now()
        choice = selector.choose(self._lookahead, now_s, waiting, self._ledger.totals(), submitted)
        self.reflection.note(now_s, waiting, choice.scores, choice.name)
        if choice.member != self._decides and not settings.shadow:
            self._put_in_force(choice)
        state.cluster[0].select_s = now_s + settings.period * settings.tick_s

    def _put_in_force(self, choice: Choice) -> None:
        """Let the chosen member decide; a planner decides from the round that is due now on."""
        run, selector, self._decides = self._run, self._selector, choice.member
        run.driver.rules = selector.rules[choice.member]
        if run.rounds_in_turn:
            run.rounds = run.rounds_in_turn[choice.member]
            return
        params = selector.params[choice.member]
        run.state.params[: len(params)] = params
        if take_over(run.state, run.rules) != DONE:
            raise BetimesError(f"internal: {choice.name} failed after its simulation")


def _mean_job_s(scenarios: Scenarios) -> float:
    """The machine time of a scenario's jobs, s: the mean over all scenarios."""
    coming = [each for each in scenarios if each is not None]
    return sum(float((each["run_s"] * each["tasks"]).sum()) for each in coming) / len(scenarios)


def _mean(simulations: Sequence[Simulation]) -> Foreseen | PolicyFails:
    """The mean of a member's simulations over scenarios, or the failure of one of them."""
    found: list[Foreseen] = []
    for simulation in simulations:
        if isinstance(simulation.foreseen, PolicyFails):
            return simulation.foreseen
        found.append(simulation.foreseen)
    if len(found) == 1:
        return found[0]
    jobs, count = sum(each.jobs for each in found), len(found)
    return Foreseen(
        jobs / count,
        sum(each.jobs * each.slowdown for each in found) / jobs,
        sum(each.machine_s for each in found) / count,
        sum(each.used_s for each in found) / count,
        sum(each.used_usd for each in found) / count,
    )


def _rents_at_ticks(chosen: ChosenPolicy[NodesPolicy]) -> bool:
    """Whether the portfolio's members rent at ticks: all of them do, or none."""
    return chosen.policy.in_turn(chosen.values)[0].policy.provision is not None


def _preferred(members: list[Member]) -> list[int]:
    """The numbers of the members, the preferred one first; members that are not among the 60 come last."""
    known = [number for number, member in enumerate(members) if member.name in CANDIDATES]
    others = [number for number, member in enumerate(members) if member.name not in CANDIDATES]
    return sorted(known, key=lambda number: preference(members[number].name)) + others
