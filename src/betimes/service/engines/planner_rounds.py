"""The rounds of planners on live nodes (`twin.nodes.planner_rounds`), who take turns, and see what was measured.

A planner answers at once, or outside, while all goes on: then its answer is carried out in a later turn.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from betimes.cluster import Cluster, Offer
from betimes.core.nodes.columns import NodesState
from betimes.core.planning import Planner, Snapshot
from betimes.policies.nodes.hooks import Member
from betimes.policies.packing.rounds import Rounds
from betimes.service.engines.messages import JobRequest
from betimes.service.engines.plans import ExpectedSaving, Reconfiguration, expected_savings
from betimes.twin.nodes.driver import Driver
from betimes.twin.nodes.planner_rounds import Plan, PlannerRounds, Question, ask_from

NOTEWORTHY = 0.01  # change of a job's throughput, as a share of that alone
MOST_TOLD = 100_000
"""Ended jobs reported to a planner at once: the newest, if more have ended since the last question."""


def planners_for(members: Sequence[Member], offers: Sequence[Offer], quota: int | None) -> dict[str, Planner]:
    """The planners of policies that take turns, by name, for these offers; none where they do not plan.

    Raises PolicyError, ClusterError.
    """
    # Without offers a planner rents nothing, and each round tells it of the nodes.
    cluster = Cluster("offers", (), offers=tuple(offers), quota=quota) if offers else Cluster.pool(1)
    planners = {each.name: each.policy.planner_of(each.values, cluster) for each in members}
    return {name: planner for name, planner in planners.items() if planner is not None}


class LiveRounds:
    """The rounds of planners that take turns about the live nodes.

    policy: that in force. planners: by name; `member` decides, the others when it is their turn (`let_decide`);
    knowledge of jobs and machines is shared by all. restart_s: cost of a restart of a job. is_aside: questions are
    answered outside (`take_question`).
    """

    def __init__(
        self,
        planners: Mapping[str, Planner],
        policy: str,
        member: str,
        offers: Sequence[Offer],
        restart_s: float,
        *,
        is_aside: bool = False,
    ) -> None:
        self.member, self.restart_s, self.is_aside = member, restart_s, is_aside
        self.offers = tuple(offers)
        self.expected: dict[int, ExpectedSaving] = {}  # of the last round's moves, by slot
        self.kinds: list[str] = []  # by slot
        self.jobs: list[int] = []  # likewise
        self.carried_out: list[Plan] = []  # or not: the planner has failed; since `take_carried_out`
        self.pending: Question | None = None  # that is being answered outside
        self.is_overdue = False  # the next question was due before the answer
        self._asked: Question | None = None  # not taken yet
        self._refused_until_s: dict[int, float] = {}  # by offer, as the cloud has none
        self._measured: dict[int, tuple[float, frozenset[int]]] = {}  # by slot: throughput, beside which jobs
        self._profiled_s: dict[int, float] = {}  # by slot: since when a job's throughput alone is known
        self._turns = {
            name: PlannerRounds(planner, policy, self.kinds, jobs=self.jobs, member=name, show=self._shown)
            for name, planner in planners.items()
        }

    @property
    def turn(self) -> PlannerRounds:
        """The rounds of the planner whose turn it is."""
        return self._turns[self.member]

    @property
    def planner(self) -> Planner:
        """The planner whose turn it is."""
        return self.turn.planner

    @planner.setter
    def planner(self, planner: Planner) -> None:
        self.turn.planner = planner

    @property
    def members(self) -> tuple[str, ...]:
        """The names of all that take turns."""
        return tuple(self._turns)

    def let_decide(self, member: str, state: NodesState, now_s: float) -> None:
        """Let another planner decide from the next round on, whatever happens until then; plans stand.

        An open question to the previous planner gets no answer.
        """
        if self.pending is not None:
            self.give_up(self.pending)
        is_set = self.turn.next_s < math.inf
        self.member = member
        self.turn.events, self.turn.next_s = -1, math.inf
        if is_set:
            self.turn.next_s = ask_from(state, self.planner.period_s, now_s, later=True)

    def note_end(self, seq: int, at_s: float) -> None:
        """A job has ended; seq: its order of submission."""
        for turn in self._turns.values():
            turn.ended.append((seq, at_s))
            del turn.ended[:-MOST_TOLD]

    def know(self, slot: int, request: JobRequest) -> None:
        """Register a job in this slot. Jobs of one kind are of one workload, or else have equal demands."""
        self._measured.pop(slot, None)
        self._profiled_s.pop(slot, None)
        if request.profiled:
            self._profiled_s[slot] = -math.inf
        self.kinds += [""] * (slot + 1 - len(self.kinds))
        self.jobs += [0] * (slot + 1 - len(self.jobs))
        self.jobs[slot] = request.job
        self.kinds[slot] = request.workload or f"{request.max_units} x {request.unit}"

    def set_speeds(self, offers: Sequence[Offer]) -> None:
        """The offers have other speeds: the planner is asked again."""
        self.offers = tuple(offers)
        self.ask_anew()

    def ask_anew(self) -> None:
        """The planner is asked in the next round, whatever happens until then."""
        self.turn.events = -1

    def know_refused(self, offer: int, now_s: float) -> None:
        """The cloud has no machine of an offer: the next two rounds go without it."""
        self._refused_until_s[offer] = until_s = now_s + 2.0 * self.planner.period_s
        for turn in self._turns.values():
            turn.hides_until_s = max(turn.hides_until_s, until_s)

    def copied(self, member: str | None = None, seqs: Sequence[int] = ()) -> LiveRounds:
        """The same with one planner, by default the present one, to be asked about a copy of the state.

        The copy is asked again about a question that has no answer yet. seqs: the order of submission of the job in
        each row of the copy's trace.
        """
        found = copy.copy(self)
        found.member = self.member if member is None else member
        found.kinds, found.jobs, found.carried_out = list(self.kinds), list(self.jobs), []
        found.expected, found._refused_until_s = dict(self.expected), dict(self._refused_until_s)
        found._measured, found._profiled_s = dict(self._measured), dict(self._profiled_s)
        found._turns = {found.member: self._turns[found.member].copied()}
        turn = found.turn
        turn.kinds, turn.jobs, turn.seqs, turn.show = found.kinds, found.jobs, seqs, found._shown
        if found.member != self.member:
            turn.events = -1
        elif self.pending is not None:
            turn.give_up(self.pending)
        found.pending = found._asked = None
        found.is_overdue = found.is_aside = False
        return found

    def profiled_until_s(self, seq: int) -> float | None:
        """Until when, at the latest, a job runs alone so that its throughput is measured; None: it does not.

        seq: its order of submission.
        """
        return self.planner.profiled_until_s.get(seq) if isinstance(self.planner, Rounds) else None

    def measure(self, slot: int, throughput: float, beside: frozenset[int], now_s: float) -> None:
        """Record a job's throughput beside the jobs of these slots, as a share."""
        self._profiled_s.setdefault(slot, now_s)
        known, alike = self._measured.get(slot, (math.nan, frozenset[int]()))
        if alike != beside or not abs(known - throughput) < NOTEWORTHY:
            self.turn.events = -1  # the planner is asked again
        self._measured[slot] = throughput, beside

    def wake(self, driver: Driver, *, is_job: bool) -> None:
        """Something has come, perhaps a job: ask at the first multiple of the period, if nothing is planned yet.

        Where rounds begin with the first job, it is asked at once.
        """
        state = driver.state
        if self.turn.next_s == math.inf and (state.pool[0].active > 0 or state.cluster[0].rented > 0):
            now_s = float(state.pool[0].now)
            if is_job:
                self.turn.next_s = self.turn.first_from(driver, now_s)
            else:
                self.turn.next_s = ask_from(state, self.planner.period_s, now_s)

    def hold(self, driver: Driver) -> None:
        """Let the planner decide, or ask it, and set the timer of the next round."""
        if not self.is_aside:
            plan = self.turn.hold(driver)
            if plan is not None:
                self._note(plan)
            return
        if self.pending is not None:
            self.is_overdue = True
        elif self.turn.is_due(driver.state):
            self.pending = self._asked = self.turn.question(driver)
        self.turn.set_next(driver)

    def take_question(self) -> tuple[Planner, Question] | None:
        """The question to answer outside, and a planner for it; null: no new question."""
        question, self._asked = self._asked, None
        return None if question is None else (copy.deepcopy(self.planner), question)

    def take_carried_out(self) -> list[Plan]:
        """Return the plans that were carried out since the last call, or could not be made."""
        found, self.carried_out = self.carried_out, []
        return found

    def give_up(self, question: Question) -> None:
        """Drop a question without an answer: the next round asks anew, and reports its ended jobs again."""
        if self.pending is question:
            self.pending, self.is_overdue = None, False
        if self._asked is question:
            self._asked = None
        self.turn.give_up(question)

    def answer_at_once(self) -> None:
        """Planners answer within their rounds from now on; an open question is asked again in the next one."""
        if self.pending is not None:
            self.give_up(self.pending)
        self.is_aside = False

    def carry_out(self, driver: Driver, plan: Plan) -> None:
        """Carry out the answer to the pending question as far as still possible. The rest is refused."""
        self.pending, self.is_overdue = None, False
        self.turn.carry_out(driver, plan)
        self._note(plan)

    def _note(self, plan: Plan) -> None:
        """Keep a plan, and the savings that it expects of the moves that were not refused."""
        found = self.reconfiguration(plan)
        self.carried_out.append(plan)
        if plan.error is None:
            self.expected = {} if found is None else found.moves

    def reconfiguration(self, plan: Plan) -> Reconfiguration | None:
        """The moves of a plan, without those that were refused, and their expected savings; None: it has none."""
        refused = [one.decision for one in plan.refused]
        return expected_savings(plan.question.snapshot, plan.decisions, self.offers, refused)

    def next_question(self, driver: Driver) -> tuple[Planner, Question]:
        """The question that the planner would get now, and a copy of it to answer; nothing changes."""
        turn = self.copied().turn
        return turn.planner, turn.question(driver)

    def _shown(self, found: Snapshot) -> Snapshot:
        """The planner's view: throughputs beside neighbours are from reports of progress; else a job has none."""
        now_s = found.now_s
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
                    profiled_s=self._profiled_s.get(job.job, math.inf),
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
