"""Simulations of several policies on the waiting jobs, from one snapshot, in one thread or more.

Members of a family (`policies.nodes.families`) are simulated together: the simulation divides where their decisions
differ, so that their common part is simulated once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from betimes.core.nodes.columns import FEATURE_COLUMNS, Lease, NodesState
from betimes.core.nodes.growth import GROWTH, grown, room_to_play
from betimes.core.nodes.passes.schedule import change_rules
from betimes.core.nodes.rules import NodesRules
from betimes.core.status import (
    ASKED,
    BAD_ORDERS,
    BAD_PLACE,
    DONE,
    NEED_SEGMENTS,
    PAUSED,
    REFUSED,
)
from betimes.errors import BetimesError
from betimes.foresight.portfolio.simulate import (
    ENDS_LATER,
    MOST_INSTANTS,
    STRANDED,
    Played,
    begin,
    divide,
    play_on,
    take_snapshot,
)
from betimes.kernels import Floats, Ints, Records, as_array, blank, entry, record_type
from betimes.policies.nodes.families import bit_of, bits_of, params_of, rules_of
from betimes.policies.nodes.hooks import Member
from betimes.policies.nodes.provisioning import PAID_TIME
from betimes.twin.nodes.driver import Answers, Driver
from betimes.twin.nodes.event_loop import Arrival, Outcome, Trace
from betimes.twin.nodes.planner_rounds import PlannerRounds
from betimes.twin.nodes.trace_loop import compiled_loop

take_over = entry(change_rules, NodesState, NodesRules)

ENTRIES = (take_snapshot, begin, play_on, divide, take_over)
"""The entries that simulations need compiled, beside the loop and the hooks of policies."""

MOST_ROUNDS = 10_000
"""Limit of a planner's rounds in one simulation; a planner that needs more fails."""

NEED_ROOM = (*GROWTH, NEED_SEGMENTS)

ANSWERS_DIFFER = (REFUSED + BAD_ORDERS, REFUSED + BAD_PLACE)
"""Statuses of the loop when the members of a family would decide differently."""

Ended = NDArray[Any]
"""Rows of `twin.nodes.event_loop.Outcome`."""


@dataclass(frozen=True)
class Foreseen:
    """The forecast of a policy for the jobs that count: the waiting ones, or all present.

    slowdown: their mean bounded slowdown. machine_s: paid machine seconds from now on, with each machine present
    charged as if it were rented now. used_s: newly paid machine seconds minus paid seconds left over for later jobs;
    negative if earlier paid time is used up. used_usd: the price of used_s.
    """

    jobs: float  # over several scenarios the mean, else a whole number
    slowdown: float
    machine_s: float
    used_s: float
    used_usd: float


PLAYED = record_type(Played).names or ()


@dataclass(frozen=True)
class PolicyFails:
    """A policy cannot be simulated to the end, for this reason, in a few words.

    passes: it may be otherwise at the next selection, when nodes have come or a limit is higher.
    """

    reason: str
    passes: bool = False


@dataclass(frozen=True)
class Together:
    """Policies simulated as one: a family's rules and the member of each bit; or a single policy."""

    rules: NodesRules
    params: Floats
    member_of: dict[int, int]  # by bit; for a single policy {0: its number}
    divides: bool = False


class Groups:
    """The families among members, and the others one by one. rules, params: of each member."""

    def __init__(
        self, members: Sequence[Member], rules: Sequence[NodesRules], params: Sequence[Floats]
    ) -> None:
        self._rules = [each.replaced(learns=False) for each in rules]
        self._params = params
        self._bits = [bit_of(member) for member in members]
        self._families: dict[int, NodesRules] = {}  # by the first member
        self._family_of: dict[int, int] = {}
        first_of: dict[tuple[tuple[str, object], ...], int] = {}
        for number, member in enumerate(members):
            if self._bits[number] is not None:
                shared = tuple(
                    (name, value) for name, value in member.values.items() if name != PAID_TIME.name
                )
                first = self._family_of[number] = first_of.setdefault(shared, number)
                if first not in self._families:
                    self._families[first] = rules_of(self._rules[first])

    def of(self, members: Sequence[int]) -> list[Together]:
        """The groups to simulate for these members."""
        found: list[Together] = []
        families: dict[int, dict[int, int]] = {}
        for number in members:
            bit = self._bits[number]
            if bit is None:
                found.append(Together(self._rules[number], self._params[number], {0: number}))
            else:
                families.setdefault(self._family_of[number], {})[bit] = number
        for first, member_of in families.items():
            numbers = list(member_of.values())
            if len(numbers) == 1:
                found.append(Together(self._rules[numbers[0]], self._params[numbers[0]], {0: numbers[0]}))
            else:
                found.append(Together(self._families[first], params_of(member_of), member_of, divides=True))
        return found


@dataclass(frozen=True)
class Successor:
    """The policy that takes over in every simulation after `at_s`."""

    at_s: float
    rules: NodesRules
    params: Floats


@dataclass(frozen=True, eq=False)
class Simulation:
    """The result of one simulation, common to these members, which decide alike.

    ended: on request, the outcome and the believed run time, s, of each job that counts.
    """

    members: list[int]
    foreseen: Foreseen | PolicyFails
    ended: tuple[Ended, Floats] | None = None


class Simulated(Protocol):
    """The subject of a lookahead: a run of the twin, or a snapshot of the service."""

    @property
    def state(self) -> NodesState:
        """The cluster; `Progress.row` is a job's row in `trace`."""
        ...

    @property
    def trace(self) -> Trace:
        """The submissions of jobs, by row."""
        ...

    @property
    def job_ids(self) -> Sequence[Any] | NDArray[Any]:
        """The jobs' identifiers, by row."""
        ...

    @property
    def promised_s(self) -> Floats:
        """(jobs,) the promised finish of each job; NaN: it has none."""
        ...

    @property
    def believes(self) -> bool:
        """Whether simulations use believed sizes instead of true ones."""
        ...


class Lookahead:
    """Simulations of several policies from one state of a run, which stays unchanged.

    `look` takes the snapshot, `play_all` simulates policies from it. everyone: running jobs count, too. workers:
    simulating threads; the results do not depend on their number. most_coming: jobs that a scenario may add. rounds: of
    the members' planners, by number, if members plan; each planner decides first at the time of the snapshot.
    """

    def __init__(
        self,
        run: Simulated,
        everyone: bool = False,
        workers: int = 1,
        most_coming: int = 0,
        rounds: Sequence[PlannerRounds] = (),
    ) -> None:
        self.run, self._everyone, self._workers, self._most_coming = run, everyone, workers, most_coming
        self._rounds = rounds
        self._rows = len(run.job_ids)
        self._run_s: Floats = np.full(self._rows + most_coming, np.nan)
        self._source: NodesState | None = None

    def look(self) -> float:
        """Take a snapshot of the run between two instants, or before a pass; returns the jobs' machine time, s."""
        run = self.run
        for rounds in self._rounds:
            rounds.hear_of(run.trace)
        if self._source is not run.state:  # its columns have grown
            self._source = run.state
            leases = 4 * len(run.state.nodes)  # the loop needs one for each rented machine
            self._snapshot = room_to_play(run.state).replaced(leases=blank(Lease, leases))
            self._players = [
                _Player(run, self._snapshot, self._most_coming, self._rounds) for _ in range(self._workers)
            ]
        self._make_room()
        return take_snapshot(run.state, self._snapshot, self._run_s, run.believes, self._everyone)

    def play_all(
        self,
        groups: Sequence[Together],
        ends: bool = False,
        successor: Successor | None = None,
        coming: NDArray[Any] | None = None,
    ) -> list[Simulation]:
        """Simulate policies from the snapshot, each until the successor, if there is one, takes over.

        ends: also return each job's outcome. coming: rows of `Arrival`, jobs that are submitted meanwhile and count.
        Raises BetimesError if no job waits or comes.
        """
        waiting = int(np.count_nonzero(~np.isnan(self._run_s[: self._rows])))
        if waiting == 0 and (coming is None or len(coming) == 0):
            raise BetimesError(
                "portfolio: no job waits, so that no policy has a utility; select while jobs wait"
            )
        count = waiting + self._let_come(coming)
        return [one for played in self._played(groups, count, ends, successor) for one in played]

    def _played(
        self, groups: Sequence[Together], count: int, ends: bool, successor: Successor | None
    ) -> Iterator[list[Simulation]]:
        """The simulations of each group, in the order of the groups."""
        players = self._players[: len(groups)]
        if len(players) == 1:
            for group in groups:
                yield players[0].play(group, self._run_s, count, ends, successor)
                self._make_room()
            return
        free = list(players)

        def play(group: Together) -> list[Simulation]:
            player = free.pop()  # there are as many as threads
            try:
                return player.play(group, self._run_s, count, ends, successor)
            finally:
                free.append(player)

        for each in ENTRIES:
            each.load()
        compiled_loop()
        with ThreadPoolExecutor(len(players)) as threads:
            yield from list(threads.map(play, groups))
        self._make_room()

    def _let_come(self, coming: NDArray[Any] | None) -> int:
        """Let these jobs be submitted in the simulations to follow; returns their number."""
        if self._most_coming == 0:
            return 0
        count, rows = 0 if coming is None else len(coming), self._rows
        self._run_s[rows:] = np.nan
        if coming is not None:
            self._run_s[rows : rows + count] = coming["run_s"]
        for player in self._players:
            player.let_come(coming)
        return count

    def _make_room(self) -> None:
        """Make the snapshot as large as its copies have become, so that others need not grow."""
        lacked = Counter[int]()
        for player in self._players:
            lacked |= player.lacked
        for status in lacked.elements():
            self._snapshot = _with_room(self._snapshot, status)
        for player in self._players if lacked else ():
            player.begin_from(self._snapshot)


def _with_room(state: NodesState, status: int) -> NodesState:
    """The same copy with the room that a status asks for; it has no leases where it needs room for more."""
    if status == NEED_SEGMENTS:
        return state.replaced(leases=blank(Lease, 2 * len(state.leases)))
    return grown(state, status)


@dataclass(frozen=True)
class _Branch:
    """A copy of the snapshot that is played forward, and its results so far; lacked: the statuses for which it grew."""

    driver: Driver
    played: Records[Played]
    lacked: list[int]

    @property
    def copy(self) -> NodesState:
        return self.driver.state


class _Player:
    """Plays copies of a snapshot forward, one at a time."""

    def __init__(
        self,
        run: Simulated,
        snapshot: NodesState,
        most_coming: int,
        rounds: Sequence[PlannerRounds],
    ) -> None:
        self._run, self._snapshot, self._rounds = run, snapshot, rounds
        self.lacked = Counter[int]()  # how often a copy grew for each status
        rows = self._rows = len(run.job_ids)
        self._arrivals = run.trace.arrivals
        if most_coming > 0:
            self._arrivals = blank(Arrival, rows + most_coming)
            as_array(self._arrivals)[:rows] = as_array(run.trace.arrivals)
        self._aside = run.trace.replaced(
            arrivals=self._arrivals,
            outcomes=blank(Outcome, rows + most_coming),
            finished=np.zeros(1, dtype=np.int64),
            features=np.zeros((0, FEATURE_COLUMNS)),
        )
        self._next_row: Ints = np.zeros(1, dtype=np.int64)
        self._unused: list[_Branch] = []

    def begin_from(self, snapshot: NodesState) -> None:
        """Begin the simulations to follow from a snapshot with more room."""
        self._snapshot, self._unused, self.lacked = snapshot, [], Counter[int]()

    def let_come(self, coming: NDArray[Any] | None) -> None:
        """Let these jobs be submitted in the simulations to follow, and no others."""
        later = as_array(self._arrivals)[self._rows :]
        count = 0 if coming is None else len(coming)
        later[:count] = coming
        later["submit_s"][count:] = math.inf

    def play(
        self, group: Together, run_s: Floats, count: int, ends: bool, successor: Successor | None
    ) -> list[Simulation]:
        """Simulate the policies of a group; the `count` jobs with a run time in `run_s` count."""
        if self._rounds:
            return self._play_rounds(group, run_s, count, ends)
        until_s = math.inf if successor is None else successor.at_s
        branch, waiting, found = self._branch(group.rules), list[_Branch](), list[Simulation]()
        branch.copy.params[: len(group.params)] = group.params
        status = begin(self._snapshot, branch.copy, group.rules, self._aside, self._rows, branch.played)
        while True:
            if status == DONE:
                status = self._play_on(branch, run_s, count, until_s)
            if status in ANSWERS_DIFFER and group.divides and len(bits_of(branch.copy.params)) > 1:
                other = self._branch(group.rules, branch)
                divide(
                    *(branch.copy, other.copy, branch.played, other.played),
                    status == REFUSED + BAD_ORDERS,
                )
                waiting.append(other)
                status = DONE
                continue
            here = bits_of(branch.copy.params) if group.divides else [0]
            if status == ENDS_LATER and successor is not None:  # its parameters are not a set of members
                branch.copy.params[: len(successor.params)] = successor.params
                branch.driver.rules = successor.rules
                status = take_over(branch.copy, successor.rules)
                if status == DONE:
                    status = self._play_on(branch, run_s, count, math.inf)
            members = [group.member_of[bit] for bit in here]
            found.append(self._simulation(branch, status, members, run_s, ends))
            self._give_back(branch)
            if not waiting:
                return found
            branch, status = waiting.pop(), DONE
            # Outcomes written since the branch was copied stand behind its own: cut them off.
            self._aside.finished[0] = branch.played[0].seen

    def _play_rounds(self, group: Together, run_s: Floats, count: int, ends: bool) -> list[Simulation]:
        """Simulate a planning member, from the round that is due now on."""
        branch, (member,) = self._branch(group.rules), group.member_of.values()
        self._next_row[0] = self._rows
        rounds = self._rounds[member].copied()
        status = begin(self._snapshot, branch.copy, group.rules, self._aside, self._rows, branch.played)
        for _ in range(MOST_ROUNDS if status == DONE else 0):
            plan = rounds.hold(branch.driver)
            if plan is not None and plan.error is not None:
                return [Simulation([member], PolicyFails(str(rounds.violation(plan))))]
            status = self._play_on(branch, run_s, count, math.inf)
            if status != ASKED:
                break
        found = self._simulation(branch, status, [member], run_s, ends)
        self._give_back(branch)
        return [found]

    def _simulation(
        self, branch: _Branch, status: int, members: list[int], run_s: Floats, ends: bool
    ) -> Simulation:
        """The result of a simulation that ended with this status."""
        if status != DONE:
            return Simulation(members, PolicyFails(self._why(status, branch.copy), status == STRANDED))
        return Simulation(members, _foreseen(branch.played), self._ended(run_s) if ends else None)

    def _play_on(self, branch: _Branch, run_s: Floats, count: int, until_s: float) -> int:
        driver = branch.driver
        while True:
            status = play_on(
                compiled_loop(),
                *(driver.state, driver.rules, driver.trace, driver.row, run_s, count, until_s, branch.played),
            )
            if status not in NEED_ROOM:
                return status
            driver.heed(status)

    def _branch(self, rules: NodesRules, like: _Branch | None = None) -> _Branch:
        """A branch that is not in use, with the room of the snapshot or of another branch."""
        lacked = [] if like is None else list(like.lacked)
        if self._unused and not lacked:
            branch = self._unused.pop()
            branch.driver.rules = rules
            return branch
        state = self._snapshot if like is None else like.copy
        copy = room_to_play(state).replaced(
            params=state.params.copy(), leases=blank(Lease, len(state.leases))
        )

        def make_room(status: int, driver: Driver) -> None:
            lacked.append(status)
            driver.state = _with_room(driver.state, status)

        answers: Answers = {status: partial(make_room, status) for status in NEED_ROOM}
        driver = Driver(copy, rules, self._aside, self._next_row, "", str, answers, is_copy=True)
        return _Branch(driver, blank(Played, 1), lacked)

    def _give_back(self, branch: _Branch) -> None:
        if branch.lacked:  # it is larger than the snapshot
            self.lacked |= Counter(branch.lacked)
        else:
            self._unused.append(branch)

    def _ended(self, run_s: Floats) -> tuple[Ended, Floats]:
        """The outcome of each job that counts in the simulation just ended, and its believed run time, s."""
        outcomes = as_array(self._aside.outcomes)[: int(self._aside.finished[0])]
        run_s = run_s[outcomes["row"]]
        counts = ~np.isnan(run_s)
        return outcomes[counts], run_s[counts]

    def _why(self, status: int, copy: NodesState) -> str:
        if status == ASKED:
            return f"the jobs do not finish within {MOST_ROUNDS:,} rounds"
        if status == PAUSED:
            return f"the jobs do not finish within {MOST_INSTANTS:,} events"
        if status > REFUSED:
            row = copy.progress[copy.pool[0].offender].row
            return f"its answer about job {self._run.job_ids[row]} cannot be used"
        if status == STRANDED:
            return "some of the jobs never start"
        raise BetimesError(f"internal: a simulated policy returned {status}")


def _foreseen(played: Records[Played]) -> Foreseen:
    # All fields at once: reading a single field takes as long.
    sums = dict(zip(PLAYED, as_array(played)[0].item(), strict=True))
    return Foreseen(
        sums["finished"],
        sums["slowdown"] / sums["finished"],
        sums["machine_s"],
        sums["bought_s"] - sums["left_s"],
        sums["used_usd"],
    )
