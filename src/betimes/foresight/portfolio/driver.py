"""A run under a portfolio: at every selection its policies are simulated, and the best is put in force."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.rules import NodesRules
from betimes.core.nodes.schedule import change_rules
from betimes.core.status import DONE
from betimes.errors import BetimesError, PolicyError, PolicyViolation
from betimes.foresight.portfolio.ledger import Ledger, Totals
from betimes.foresight.portfolio.scores import of_queue, of_run
from betimes.foresight.portfolio.selection import PREFERENCE, Limit, Past, Rotation, winner
from betimes.foresight.portfolio.simulate import Lookahead, PolicyFails
from betimes.foresight.portfolio.utility import Utility
from betimes.kernels import Floats, entry
from betimes.outcome import SelectionColumns
from betimes.policies.hooks import Value
from betimes.policies.nodes.hooks import Member
from betimes.policies.nodes.portfolio import CANDIDATES, PAPER, preference
from betimes.twin.nodes.simulation import NodesSimulation

adopt = entry(change_rules, NodesState, NodesRules)

LOTS = 0x90F0  # sets the draws from the Poor apart from other draws of the seed


@dataclass(frozen=True)
class Settings:
    """How a portfolio selects: `period` ticks of `tick_s` apart, within a limit, by utility.

    published: by that of the waiting jobs alone, else by that of the whole run. shadow: nothing is put in force.
    """

    period: int
    tick_s: float
    limit: Limit
    utility: Utility
    ties: str
    published: bool = False
    hysteresis_frac: float = 0.0
    shadow: bool = False

    @classmethod
    def of(cls, values: dict[str, Value | None]) -> Settings:
        """From the parameters of the policy `portfolio`; raises PolicyError."""
        numbers: dict[str, float] = {
            name: value for name, value in values.items() if isinstance(value, int | float)
        }
        for name in ("period", "budget"):
            if name in numbers and numbers[name] != int(numbers[name]):
                raise PolicyError(
                    f"policy portfolio, parameter {name}: {numbers[name]:g} is not a whole number"
                )
        budget = numbers.get("budget")
        if budget is not None and "seconds" in numbers:
            raise PolicyError("policy portfolio: budget and seconds are both given; leave one of them out")
        return cls(
            int(numbers["period"]),
            numbers["tick"],
            Limit(
                int(budget) if budget is not None else numbers.get("seconds"),
                numbers["smart"],
                str(values["split"]),
            ),
            Utility(numbers["alpha"], numbers["beta"]),
            str(values["ties"]),
            values["rules"] == PAPER,
            numbers["hysteresis"],
            values["shadow"] == "true",
        )


@dataclass
class Reflection:
    """What was simulated and chosen, selection by selection."""

    rows: list[tuple[int, float, int, str, float, bool]] = field(
        default_factory=list[tuple[int, float, int, str, float, bool]]
    )
    selections: int = 0

    def note(self, at_s: float, waiting: int, scores: dict[str, float], chosen: str) -> None:
        """A selection: the scores of those simulated, NaN of those that failed."""
        for member, score in scores.items():
            self.rows.append((self.selections, at_s, waiting, member, score, member == chosen))
        self.selections += 1

    def columns(self) -> SelectionColumns:
        """All of it."""
        columns: list[Any] = list(zip(*self.rows, strict=True)) if self.rows else [()] * 6
        selection, at_s, waiting, member, score, chosen = columns
        return SelectionColumns(
            selection=np.array(selection),
            at_s=np.array(at_s),
            waiting=np.array(waiting),
            member=np.array(member, dtype=np.str_),
            score=np.array(score),
            chosen=np.array(chosen),
        )


class Portfolio:
    """Selects among members for a run, which it changes only by putting the chosen one's rules in force."""

    def __init__(
        self,
        run: NodesSimulation,
        members: list[Member],
        settings: Settings,
        warn: Callable[[str], object],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._run, self._members, self._settings = run, members, settings
        self._warn, self._clock = warn, clock
        learns = run.rules.learns
        self._rules: list[NodesRules] = [member.policy.rules(member.values, learns) for member in members]
        self._ahead = [rules.replaced(learns=False) for rules in self._rules]
        self._params: list[Floats] = [member.policy.params(member.values) for member in members]
        self._lookahead = Lookahead(run)
        self._ledger = Ledger(run)
        lots = np.random.default_rng([run.seed, LOTS])
        self.rotation = Rotation(
            list(range(len(members))), settings.limit, lambda count: int(lots.integers(count))
        )
        self.past = Past()
        self.reflection = Reflection()
        self._preferred = _preferred(members) if settings.ties == PREFERENCE else []
        self.failed: dict[str, str] = {}
        self.in_force: int | None = None

    def start(self) -> None:
        """Let the run ask for a selection at its first tick with jobs that wait."""
        self._run.state.cluster[0].select_s = 0.0
        self._run.select = self.select

    def select(self) -> None:
        """Simulate, choose, and put the chosen policy in force until the next selection."""
        run, state = self._run, self._run.state
        now_s, waiting = float(state.pool[0].now), int(state.cluster[0].waiting)
        simulated: dict[str, float] = {}
        job_s, so_far = self._lookahead.look(), self._ledger.totals()

        def simulate(member: int) -> tuple[float | None, float | int]:
            begun = self._clock()
            score = self._score(member, job_s, so_far)
            simulated[self._members[member].name] = np.nan if score is None else score
            return score, self._clock() - begun if isinstance(self._settings.limit.budget, float) else 1

        scores = self.rotation.simulate(simulate)
        if not scores:
            name, reason = next(iter(self.failed.items()))
            raise PolicyViolation(
                f"policy {run.policy} at {now_s:g} s: every member has failed; {name}: {reason}"
            )
        self.past.remember(scores)
        settings = self._settings
        weight = 1.0 if settings.published else waiting / (so_far.jobs + waiting)
        chosen = winner(
            scores,
            settings.ties,
            self.in_force,
            self.past,
            settings.hysteresis_frac * weight,
            self._preferred,
        )
        self.reflection.note(now_s, waiting, simulated, self._members[chosen].name)
        if chosen != self.in_force and not settings.shadow:
            run.rules = self._rules[chosen]
            state.params[: len(self._params[chosen])] = self._params[chosen]
            if adopt(state, run.rules) != DONE:
                raise BetimesError(f"internal: {self._members[chosen].name} failed after its simulation")
        self.in_force = chosen
        state.cluster[0].select_s = now_s + self._settings.period * self._settings.tick_s

    def _score(self, member: int, job_s: float, so_far: Totals) -> float | None:
        """What the policy is worth for the jobs that wait; None, and a warning: its simulation failed."""
        try:
            foreseen = self._lookahead.play(self._ahead[member], self._params[member])
        except PolicyFails as failure:
            name = self._members[member].name
            self.failed[name] = str(failure)
            self._warn(f"portfolio: {name} is left out from now on: in its simulation {failure}")
            return None
        if self._settings.published:
            return of_queue(self._settings.utility, job_s, foreseen)
        return of_run(self._settings.utility, so_far, job_s, foreseen)


def _preferred(members: list[Member]) -> list[int]:
    """The numbers of the members, the preferred one first; those that are none of the 60 come last."""
    known = [number for number, member in enumerate(members) if member.name in CANDIDATES]
    others = [number for number, member in enumerate(members) if member.name not in CANDIDATES]
    return sorted(known, key=lambda number: preference(members[number].name)) + others
