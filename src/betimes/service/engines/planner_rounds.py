"""The rounds of a planner on live nodes: questions, snapshots, and the handling of its decisions.

As in the twin (`twin.nodes.planner_rounds`), at multiples of its period while there are jobs or rented machines. It
answers at once, or outside, while all goes on: then its answer is carried out in a later turn.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from betimes.cluster import Cluster, Offer
from betimes.core.nodes import instructions
from betimes.core.nodes.columns import NodesState
from betimes.core.nodes.planning import paid_until, refusals, seqs_of, snapshot_of
from betimes.core.planning import Planner, Release, Rent, Snapshot
from betimes.errors import PolicyViolation
from betimes.kernels import as_array
from betimes.policies.nodes.hooks import Member
from betimes.service.engines.messages import JobRequest
from betimes.service.engines.plans import ExpectedSaving, Plan, Question, Refused, answer, expected_savings
from betimes.twin.nodes.driver import Driver
from betimes.twin.nodes.event_loop import Trace
from betimes.twin.nodes.planner_rounds import ask_at, ask_from

NOTEWORTHY = 0.01  # change of a job's throughput, as a share of that alone
MOST_TOLD = 100_000
"""Ended jobs reported to a planner at once: the newest, if more have ended since the last question."""
ENTRIES = (instructions.carry_out, paid_until, ask_at)
"""Entries to compile for planners, besides live nodes."""


def planners_for(members: Sequence[Member], offers: Sequence[Offer], quota: int | None) -> dict[str, Planner]:
    """The planners of policies that take turns, by name, for these offers; none where they do not plan.

    Raises PolicyError, ClusterError.
    """
    # Without offers a planner rents nothing, and each round tells it of the nodes.
    cluster = Cluster("offers", (), offers=tuple(offers), quota=quota) if offers else Cluster.pool(1)
    planners = {each.name: each.policy.planner_of(each.values, cluster) for each in members}
    return {name: planner for name, planner in planners.items() if planner is not None}


@dataclass
class _Turn:
    """One of the planners that take turns. ended: since the last question, by order of submission, and when."""

    planner: Planner
    ended: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])


class PlannerRounds:
    """Asks a planner about a given state, the live one or a copy that is played forward.

    planners: by name; `member` decides, the others when it is their turn (`let_decide`); knowledge of jobs and machines
    is shared by all. restart_s: cost of a restart of a job. is_aside: questions are answered outside
    (`take_question`). next_s: when the planner is asked next; infinity: once a job comes.
    """

    def __init__(
        self,
        planners: Mapping[str, Planner],
        member: str,
        offers: Sequence[Offer],
        restart_s: float,
        *,
        is_aside: bool = False,
    ) -> None:
        self.member, self.restart_s, self.is_aside = member, restart_s, is_aside
        self._turns = {name: _Turn(planner) for name, planner in planners.items()}
        self.offers = tuple(offers)
        self.expected: dict[int, ExpectedSaving] = {}  # of the last round's moves, by slot
        self.next_s = math.inf
        self.kinds: list[str] = []  # by slot
        self.jobs: list[int] = []  # likewise
        self.refused: list[Refused] = []  # since `take_refused`
        self.pending: Question | None = None  # that is being answered outside
        self.is_overdue = False  # the next question was due before the answer
        self._asked: Question | None = None  # not taken yet
        self._is_copy, self._has_failed = False, False
        self._refused_until_s: dict[int, float] = {}  # by offer, as the cloud has none
        self._events = -1  # of the engine, when the planner was asked last; -1: it is asked in any case
        self._heard = 0  # outcomes of a play-out that the planner knows
        self._measured: dict[int, tuple[float, frozenset[int]]] = {}  # by slot: throughput, beside which jobs
        self._profiled: set[int] = set()  # slots of jobs whose throughput alone is known

    @property
    def planner(self) -> Planner:
        """The planner whose turn it is."""
        return self._turn.planner

    @planner.setter
    def planner(self, planner: Planner) -> None:
        self._turn.planner = planner

    @property
    def members(self) -> tuple[str, ...]:
        """The names of all that take turns."""
        return tuple(self._turns)

    @property
    def _turn(self) -> _Turn:
        return self._turns[self.member]

    def let_decide(self, member: str, state: NodesState, now_s: float) -> None:
        """Let another planner decide from the next round on, whatever happens until then; plans stand.

        An open question to the previous planner gets no answer.
        """
        if self.pending is not None:
            self.give_up(self.pending)
        self.member = member
        self._events = -1
        if self.next_s < math.inf:
            self.next_s = ask_from(state, self.planner.period_s, now_s, later=True)

    def note_end(self, seq: int, at_s: float) -> None:
        """A job has ended; seq: its order of submission."""
        for turn in self._turns.values():
            turn.ended.append((seq, at_s))
            del turn.ended[:-MOST_TOLD]

    def know(self, slot: int, wanted: JobRequest) -> None:
        """Register a job in this slot. Jobs of one kind are of one workload, or else have equal demands."""
        self._measured.pop(slot, None)
        (self._profiled.add if wanted.profiled else self._profiled.discard)(slot)
        self.kinds += [""] * (slot + 1 - len(self.kinds))
        self.jobs += [0] * (slot + 1 - len(self.jobs))
        self.jobs[slot] = wanted.job
        self.kinds[slot] = wanted.workload or f"{wanted.max_units} x {wanted.unit}"

    def set_speeds(self, offers: Sequence[Offer]) -> None:
        """The offers have other speeds: the planner is asked again."""
        self.offers = tuple(offers)
        self._events = -1

    def know_refused(self, offer: int, now_s: float) -> None:
        """The cloud has no machine of an offer: the next two rounds go without it."""
        self._refused_until_s[offer] = now_s + 2.0 * self.planner.period_s

    def copied(self, member: str | None = None) -> PlannerRounds:
        """The same with one planner, by default the present one, to be asked about a copy of the state.

        The copy is asked again about a question that has no answer yet.
        """
        found = copy.copy(self)
        found.member = self.member if member is None else member
        turn = self._turns[found.member]
        found._turns = {found.member: _Turn(copy.deepcopy(turn.planner), list(turn.ended))}
        if found.member != self.member:
            found._events = -1
        elif self.pending is not None:
            found.give_up(self.pending)
        found.pending = found._asked = None
        found.is_overdue = found.is_aside = False
        found._is_copy, found._has_failed = True, False
        found.kinds, found.jobs, found.refused = list(self.kinds), list(self.jobs), []
        found.expected, found._refused_until_s = dict(self.expected), dict(self._refused_until_s)
        found._measured, found._profiled = dict(self._measured), set(self._profiled)
        return found

    def measure(self, slot: int, throughput: float, beside: frozenset[int]) -> None:
        """Record a job's throughput beside the jobs of these slots, as a share."""
        self._profiled.add(slot)
        known, alike = self._measured.get(slot, (math.nan, frozenset[int]()))
        if alike != beside or not abs(known - throughput) < NOTEWORTHY:
            self._events = -1  # the planner is asked again
        self._measured[slot] = throughput, beside

    def hear_of(self, trace: Trace, seqs: Sequence[int]) -> None:
        """Jobs have ended in a play-out; seqs: the order of submission of each row."""
        ended = as_array(trace.outcomes)[self._heard : trace.finished[0]]
        self._heard = int(trace.finished[0])
        for row, at_s in zip(ended["row"].tolist(), ended["finish_s"].tolist(), strict=True):
            self.note_end(seqs[row], at_s)

    def wake(self, state: NodesState) -> None:
        """Something has come: ask at the first multiple of the period, if nothing is planned yet."""
        if self.next_s == math.inf and (state.pool[0].active > 0 or state.cluster[0].rented > 0):
            self.next_s = ask_from(state, self.planner.period_s, float(state.pool[0].now))

    def hold(self, driver: Driver) -> None:
        """Let the planner decide, carry that out, and set the timer of the next round.

        A planner that fails in a play-out is not asked again there: earlier decisions hold.
        """
        state = driver.state
        now_s = float(state.pool[0].now)
        if self.pending is not None:
            self.is_overdue = True
        elif self.planner.every_round or int(state.pool[0].events) != self._events:
            question = self._question(state)
            self._events = question.events
            if self.is_aside:
                self.pending = self._asked = question
            else:
                self.carry_out(driver, answer(self.planner, question))
                state = driver.state
        self.next_s = math.inf
        active = state.pool[0].active > 0 or state.cluster[0].rented > 0
        if active and not (self._is_copy and self._has_failed):
            self.next_s = ask_from(state, self.planner.period_s, now_s, later=True)

    def take_question(self) -> tuple[Planner, Question] | None:
        """The question to answer outside, and a planner for it; null: no new question."""
        question, self._asked = self._asked, None
        return None if question is None else (copy.deepcopy(self.planner), question)

    def take_refused(self) -> list[Refused]:
        """Return the refusals since the last call."""
        found, self.refused = self.refused, []
        return found

    def give_up(self, question: Question) -> None:
        """Drop a question without an answer: the next round asks anew, and reports its ended jobs again."""
        if self.pending is question:
            self.pending, self.is_overdue = None, False
        if self._asked is question:
            self._asked = None
        self._turn.ended = [*question.snapshot.finished, *self._turn.ended]
        self._events = -1

    def carry_out(self, driver: Driver, plan: Plan) -> None:
        """Carry out a plan as far as still possible. The rest is refused."""
        if plan.problem is not None or plan.batch is None:
            self._has_failed = True
            self.give_up(plan.question)
            self.refused.append(Refused(plan.question, problem=plan.problem))
            return
        self.planner, self.pending, self.is_overdue = plan.planner, None, False
        before = int(driver.state.pool[0].events)
        driver.carry_out(plan.batch)
        refused = refusals(plan.decisions, plan.batch, plan.of, plan.question.snapshot)
        self.refused.append(Refused(plan.question, refused))
        stay = {one.decision.job for one in refused if not isinstance(one.decision, Rent | Release)}
        expected = expected_savings(plan.question.snapshot, plan.decisions, self.offers)
        self.expected = {slot: each for slot, each in expected.items() if slot not in stay}
        is_news = self._events != plan.question.events  # something was measured meanwhile
        pool = driver.state.pool[0]
        now_s = float(pool.now)
        again = refused or is_news or any(until_s >= now_s for until_s in self._refused_until_s.values())
        self._events = -1 if again else plan.question.events + int(pool.events) - before

    def next_question(self, state: NodesState) -> tuple[Planner, Question]:
        """The question that the planner would get now, and a copy of it to answer; nothing changes."""
        rounds = self.copied()
        return rounds.planner, rounds._question(state)

    def _question(self, state: NodesState) -> Question:
        events = int(state.pool[0].events)
        return Question(self.member, self._snapshot(state), seqs_of(state), tuple(self.jobs), events)

    def _snapshot(self, state: NodesState) -> Snapshot:
        """The planner's view of the state.

        Jobs that ended at this very instant come in the next round, as in the twin. Throughputs beside neighbours are
        from reports of progress; a job without reports has none.
        """
        now_s, turn = float(state.pool[0].now), self._turn
        ended = [one for one in turn.ended if one[1] < now_s]
        turn.ended = [one for one in turn.ended if one[1] >= now_s]
        found = snapshot_of(state, self.kinds, ended)
        rentable = tuple(
            0 if self._refused_until_s.get(offer, -math.inf) >= now_s else left
            for offer, left in enumerate(found.rentable)
        )
        throughputs = self._throughputs(found)
        return found._replace(
            rentable=rentable,
            speeds=tuple(offer.speeds for offer in self.offers),
            jobs=tuple(
                job._replace(
                    speed=throughputs.get(job.job, 0.0) * job.speed,
                    init_s=job.init_s + self.restart_s,
                    profiled=job.job in self._profiled,
                )
                for job in found.jobs
            ),
        )

    def _throughputs(self, snapshot: Snapshot) -> dict[int, float]:
        """Measured throughputs of jobs beside present neighbours."""
        if not self._measured:
            return {}
        on = defaultdict[int, set[int]](set)
        for job in snapshot.jobs:
            for place in job.places:
                on[place.machine].add(job.job)
        found: dict[int, float] = {}
        for job in snapshot.jobs:
            throughput, beside = self._measured.get(job.job, (0.0, frozenset[int]()))
            now = {each for place in job.places for each in on[place.machine]} - {job.job}
            if throughput > 0.0 and beside == now:
                found[job.job] = throughput
        return found


@dataclass(frozen=True)
class SnapshotRounds:
    """The rounds of a portfolio's member in a selection (`foresight.portfolio.lookahead.MemberRounds`).

    They never change, so that any thread can play a copy of them forward. policy: the portfolio. seqs: the order of
    submission of the job in each row.
    """

    policy: str
    rounds: PlannerRounds
    seqs: Sequence[int]
    driver: Driver | None = None  # of the copy

    def ahead(self, driver: Driver) -> SnapshotRounds:
        """The same for a copy of the state without further jobs."""
        return replace(self, rounds=self.rounds.copied(), driver=driver)

    def hold(self) -> None:
        """Let the planner decide; raises PolicyViolation where it fails."""
        assert self.driver is not None, "rounds are held on a copy"
        self.rounds.hear_of(self.driver.trace, self.seqs)
        self.rounds.hold(self.driver)
        for one in self.rounds.take_refused():
            if one.problem is not None:
                at_s = one.question.snapshot.now_s
                raise PolicyViolation(f"policy {self.policy} at {at_s:g} s: {one.problem}")
