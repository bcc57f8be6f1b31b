"""The engine of the policy in force: its inputs for the next decision, and its knowledge of each job."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from betimes.cluster import Offer
from betimes.cluster.checks import family_of
from betimes.cluster.interference import workload_of
from betimes.core.shares import HELD, HELD_OF_LATE
from betimes.errors import Conflict, Unavailable
from betimes.foresight.engines import NODES, POOL
from betimes.kernels import Floats
from betimes.kernels.structs import Struct
from betimes.service.engines.messages import (
    Allocation,
    Decisions,
    Exempt,
    Foreseen,
    Inputs,
    JobRequest,
    Opening,
    Outrun,
    Play,
    ReleaseMachine,
    RentMachine,
)
from betimes.service.engines.named_policies import kind_of, rents_for_jobs, shared_offers
from betimes.service.engines.nodes import LiveNodes
from betimes.service.engines.planner_rounds import LiveRounds
from betimes.service.engines.pool import LivePool
from betimes.service.engines.pool_machines import PoolMachines
from betimes.service.engines.rented_machines import RentedMachines
from betimes.service.engines.selection import MemberRules, SelectionSnapshot
from betimes.service.engines.speedups import speed
from betimes.service.scheduling.engine_factory import (
    Built,
    Settings,
    Standby,
    build,
    kept_nodes,
    pool_units,
    renting,
    request_of,
    resume_machine,
    work_factor,
)
from betimes.service.scheduling.job import Job, Places
from betimes.service.scheduling.node import BOOTING, UP, Node
from betimes.service.scheduling.state import SchedulerState
from betimes.service.scheduling.throughputs import Neighbours
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.users import User
from betimes.twin.account import Account
from betimes.twin.nodes.planner_rounds import Plan
from betimes.twin.pool.trials import SLACK, usual_s, work_left

WATCHES = "this service watches Slurm; submit with sbatch, and it will be promised an end"
LEAST_END_S = 1.0
"""Until a stopping run is believed to have left."""
_NEVER_CHANGED = ("policy", "rules", "offers", "offered", "shapes", "_new_state")
"""Attributes of engines that a copy may share."""
LATE_S = 1.0  # within which a node that should be up by now is expected

IsCompiled = Callable[[str], bool]
"""Whether the kernels of a policy can be called at once."""


class PolicyEngine:
    """Stands between the jobs of the ledger and the engine, which knows numbers.

    Inputs between two decisions are collected (`enter`, `believe`, `withdraw`, ...) and handed to the engine together
    by `decide`.
    """

    def __init__(self, state: SchedulerState, settings: Settings, is_compiled: IsCompiled) -> None:
        self.settings = settings
        self._state, self.is_compiled = state, is_compiled
        self._pending = Inputs()
        self._built: Built | None = None
        self._taught: tuple[Offer, ...] = settings.offers  # with the speeds that the engine goes by
        self._lost: list[int] = []
        self._shares_seen = (0, 0)  # how many users the engine knows, and changes of these

    # --- the policy in force ----------------------------------------------------------------------------------

    @property
    def engine(self) -> Any:
        """The engine itself. Raises Conflict before the first policy is set."""
        if self._built is None:
            raise Conflict("no policy is set yet")
        return self._built.engine

    @property
    def kind(self) -> str | None:
        """`pool` or `nodes`; null before the first policy is set."""
        return self._built.kind if self._built is not None else None

    @property
    def is_pool(self) -> bool:
        """Whether the policy in force decides about the units of a pool."""
        return self.kind == POOL

    @property
    def is_nodes(self) -> bool:
        """Whether the policy in force places jobs on nodes."""
        return self.kind == NODES

    @property
    def offers_for_jobs(self) -> tuple[Offer, ...] | None:
        """Offers for one job alone under the policy in force; null: it rents none so."""
        return self.settings.offers if rents_for_jobs(self._state.ledger.policy) else None

    @property
    def stands_by(self) -> bool:
        """Whether the policy in force is not compiled yet, so that nothing is decided."""
        return (
            self._built is not None
            and isinstance(self._built.engine, Standby)
            and self._built.engine.stands_by
        )

    @property
    def watches(self) -> bool:
        """Whether another scheduler decides, which is watched only."""
        return self.settings.observation is not None

    @property
    def restart_s(self) -> float:
        """The assumed cost of a restart of a job, s."""
        measured_s = self._state.ledger.restart_cost.usual_s if self.settings.measures_restarts else None
        return self.settings.restart_s if measured_s is None else measured_s

    @property
    def accounts(self) -> dict[int, Account]:
        """Accounts of the jobs that the engine took over when built, in its unit of work."""
        return self._built.accounts if self._built is not None else {}

    def next_timer_at(self) -> float:
        """The instant of the policy's next timer; infinity: never."""
        timer_s = self.engine.next_timer_s() if self._built else math.inf
        timer_at = timer_s + self._state.ledger.epoch_at
        while timer_at - self._state.ledger.epoch_at < timer_s:  # rounded: it would be too early then
            timer_at = math.nextafter(timer_at, math.inf)
        return timer_at

    @property
    def heeds_beliefs(self) -> bool:
        """Whether the policy in force decides by what is believed of jobs, not by their order of submission alone."""
        return self.engine.heeds_beliefs

    # --- its knowledge ----------------------------------------------------------------------------------------

    def knows(self, job: Job) -> bool:
        """Whether the engine has this job."""
        return job.job_id in self.engine.slot_of

    def account(self, number: int) -> Account:
        """The account of a job."""
        return self.engine.account(number)

    def account_row(self, number: int) -> dict[str, Any]:
        """The account as events hold it."""
        return self.account(number).row()

    def believed_left_s(self, job: Job) -> float:
        """Work that a job is believed to have left now."""
        return max(0.0, self.engine.believed_left(job.job_id, self._state.now_s))

    def done_s(self, job: Job) -> float:
        """Work that the account of a job counts as done by now."""
        return self.engine.account(job.job_id).size_s - self.engine.believed_left(
            job.job_id, self._state.now_s
        )

    def set_left_s(self, job: Job, at: float) -> float:
        """Known work left of a set's trials at an instant, seconds on one unit."""
        if job.trials is None:
            raise ValueError(f"internal: job {job.job_id} is no set of trials")
        elements, begun = self._state.trial_index.of[job.job_id], list[tuple[float, float]]()
        for number in sorted(elements.begun):
            trial = self._state.ledger.jobs[number]
            ran_s = trial.has_run_s(at)
            if ran_s > 0.0:
                begun.append((ran_s, trial.progress_frac or 0.0))
        trials, untouched = job.trials, len(elements.live) - len(begun)
        return work_left(trials.runtime_estimate_s, trials.taken_s, trials.finished, begun, untouched)

    def whole_s(self, job: Job, run_s: float) -> float:
        """Total work of a job, in the engine's unit, that takes so long on its max_units."""
        whole_s = run_s * self.speed(job, job.spec.max_units)
        return whole_s / self.speed(job, job.units or job.spec.max_units) if self.is_nodes else whole_s

    def rest_s(self, job: Job, run_s: float) -> float:
        """Work left of such a job; one that has outrun that belief takes twice as long again."""
        whole_s, done_s = self.whole_s(job, run_s), self.done_s(job)
        while whole_s <= done_s:
            whole_s *= 2.0
        return whole_s - done_s

    def speed(self, job: Job, units: int | None = None) -> float:
        """Speed-up of a job over one unit: on so many units, or on those of its run."""
        held = job.run.units if units is None and job.run else units or 1
        return speed(request_of(job), held)

    def rate(self, job: Job, units: int | None = None) -> float:
        """Work a second in the engine's unit: in a pool the speed-up (`speed`), on nodes 1, or `pace` in its run."""
        if self.is_nodes:
            return self.pace(job) if units is None else 1.0
        return self.speed(job, units)

    def pace(self, job: Job) -> float:
        """The speed of a job's run on its nodes, that of the slowest; 1 where no speed is stated or learned."""
        if job.run is None or (job.spec.workload is None and not job.spec.unit.speeds):
            return 1.0
        nodes = self._state.ledger.nodes
        on = (nodes[name] for name, _ in job.run.places if name in nodes)
        return min((self.speed_on(job.spec, node) for node in on), default=1.0)

    def speed_on(self, spec: JobSpec, node: Node) -> float:
        """The speed of a job on a node."""
        return self._speed_on(spec, node.family, node.machine.type if node.by_policy else "")

    def pace_on(self, job: Job, types: Iterable[str]) -> float:
        """The same on machines of these types."""
        family = {offer.type: offer.family for offer in self._taught}
        return min(
            (self._speed_on(job.spec, family.get(on) or family_of(on), on) for on in types), default=1.0
        )

    def _speed_on(self, spec: JobSpec, family: str, offer: str) -> float:
        speeds = next((dict(each.speeds) for each in self._taught if each.type == offer), {})
        return spec.unit.speed_on(family) * speeds.get(workload_of(spec.workload or ""), 1.0)

    def places_of(self, held: Sequence[Allocation]) -> Places:
        """Units on nodes by the nodes' names."""
        built = self._built
        return [(built.name(place.node), place.units) for place in held] if built is not None else []

    # --- its inputs for the next decision ----------------------------------------------------------------------

    @property
    def reported(self) -> list[int]:
        """Jobs whose work left will change."""
        return [number for number, _ in self._pending.believed]

    @property
    def withdrawn(self) -> Sequence[int]:
        """Jobs that have left, not yet reported to the engine."""
        return self._pending.done

    def enter(self, job: Job) -> None:
        """A job has nothing left to wait for but the policy."""
        self._state.job_index.enters(job)
        self._pending.requests.append(self._request_for(job))

    def enter_anew(self, numbers: Collection[int]) -> None:
        """Let those of these jobs that are about to enter do so with their present beliefs."""
        jobs = self._state.ledger.jobs
        self._pending.requests = [
            self._request_for(jobs[request.job]) if request.job in numbers else request
            for request in self._pending.requests
        ]

    @property
    def learns_throughputs(self) -> bool:
        """Whether a planner decides, which needs those of jobs beside each other, or machines are rented for many."""
        engine = self.engine
        return isinstance(engine, LiveNodes) and (engine.rounds is not None or engine.provisions)

    def measure(self, number: int, throughput: float, beside: Neighbours) -> None:
        """Record a job's throughput beside others, as a share."""
        if isinstance(self.engine, LiveNodes):
            self.engine.measure(number, throughput, beside, self._state.now_s)

    def learn_speeds(self) -> dict[int, float]:
        """Go by the speeds that were measured by now; returns by how much each job is faster, where that changes."""
        taught, engine = self._state.ledger.measured_rates.taught(self.settings.offers), self.engine
        if taught == self._taught or not isinstance(engine, LiveNodes):
            return {}
        self._taught = taught
        self.look()
        changed = engine.set_speeds(taught, self._state.now_s)
        return {job: ratio for job, ratio in changed.items() if job not in self.withdrawn}

    def believe(self, number: int, left_s: float) -> None:
        """Set a job's believed work left, at most what its time limit allows."""
        job = self._state.ledger.jobs[number]
        self._pending.believed.append((number, min(left_s, self._most_left_s(job))))

    def retract_belief(self, number: int) -> None:
        """Drop a new belief about a job."""
        self._pending.believed = [one for one in self._pending.believed if one[0] != number]

    def set_width(self, number: int, units: int) -> None:
        """A set of trials can use so many units from now on."""
        self._pending.widths.append((number, units))

    def vacate(self, number: int) -> None:
        """A stopped run has left its nodes."""
        self._pending.gone.append(number)

    def withdraw(self, job: Job) -> None:
        """A job leaves the engine, for any reason."""
        number, pending = job.job_id, self._pending
        if number in self._state.job_index.entering:
            pending.requests = [request for request in pending.requests if request.job != number]
            self._state.job_index.entering.discard(number)
        self.retract_belief(number)
        pending.gone = [one for one in pending.gone if one != number]
        pending.widths = [one for one in pending.widths if one[0] != number]
        if job.account is not None:
            pending.done.append(number)

    def look(self) -> None:
        """The policy looks at everything at the next decision, though nothing may have happened."""
        self._pending.look = True

    # --- inputs that take effect at once ----------------------------------------------------------------------

    def lose(self, job: Job) -> None:
        """A job has lost what it held, without a decision."""
        self.engine.lose(job.job_id, self._state.now_s)
        self._lost.append(job.job_id)

    def lose_machines(self, job: Job, cause: int) -> None:
        """A job has lost the machines rented for it; cause: `core.nodes.machines.rented.FAILED` or `TAKEN_AWAY`."""
        self.engine.lose(job.job_id, self._state.now_s, cause)
        self._lost.append(job.job_id)

    def new_waits(self) -> list[tuple[int, float | None]]:
        """Of the jobs that have lost what they held since the last call, those that wait until another instant, s.

        Known once the policy has decided: it may first play out whether they wait in vain. Null: without end.
        """
        lost, self._lost = self._lost, []
        jobs = [self._state.ledger.jobs[number] for number in lost if number in self.engine.slot_of]
        waits = [(job.job_id, self.account(job.job_id).waits_until_s, job.account) for job in jobs]
        return [
            (n, until_s) for n, until_s, known in waits if known is None or until_s != known.waits_until_s
        ]

    def refuse_machines(self, job: Job, again_s: float) -> None:
        """A job gets no rented machines now; others are rented at `again_s` if it still waits."""
        self.engine.refuse_machines(job.job_id, self._state.now_s, again_s)

    def start_alone(self, job: Job) -> float | None:
        """A job's rented machines are up; returns until when it runs there speculatively, null: to its end."""
        if self.stands_by:
            return job.rental.speculates_until_s if job.rental is not None else None
        until_s = float(self.engine.start_alone(job.job_id, self._state.now_s))
        return until_s if until_s < math.inf else None

    def offer(self, number: int) -> Offer:
        """An offer by the engine's number."""
        return self.settings.offers[number]

    def take_over_nodes(self) -> bool:
        """Go on with the present nodes; false: a new engine has to be made."""
        ledger, now_s = self._state.ledger, self._state.now_s
        unbound = self._built.take_over(ledger.nodes, ledger.jobs, now_s) if self._built is not None else None
        if unbound is not None and self.may_close:
            self.see_closings()
        for number in unbound or ():
            self._state.log("unbound", "policy", number)
        return unbound is not None

    def see_closings(self) -> None:
        """The windows of maintenance, or the nodes that close, are others."""
        built, ledger = self._built, self._state.ledger
        if built is None:
            return
        bits = ledger.maintenance.bits
        closings = [
            (number, from_at - ledger.epoch_at, to_at - ledger.epoch_at, bits.get(window, 0))
            for number, (name, _) in built.nodes.items()
            for from_at, to_at, window in self._closings(ledger.nodes[name])
        ]
        by_user = ledger.maintenance.exempt(bits)
        by_job = {number: by_user[job.user] for number, job in ledger.jobs.items() if job.user in by_user}
        built.engine.set_closings(closings, Exempt(by_user, by_job), self._state.now_s)
        self.look()

    @property
    def may_close(self) -> bool:
        """Whether some nodes take no jobs from some instant on."""
        return bool(self._state.ledger.maintenance) or self.settings.fleet.longest_lease_s is not None

    def closings_on(self, node: Node, user: str) -> list[tuple[float, float]]:
        """From when until when a node takes no jobs of a user: for maintenance, or for good as its lease ends."""
        windows = self._state.ledger.maintenance.of
        return [
            (from_at, to_at)
            for from_at, to_at, number in self._closings(node)
            if number is None or user not in windows[number].users
        ]

    def _closings(self, node: Node) -> list[tuple[float, float, int | None]]:
        """From when until when a node takes no jobs, and the number of the window; null: its lease ends."""
        found: list[tuple[float, float, int | None]] = [
            (each.from_at, each.to_at, each.number) for each in self._state.ledger.maintenance.on(node)
        ]
        lease_until_at = self.lease_until_at(node)
        return found if lease_until_at == math.inf else [*found, (lease_until_at, math.inf, None)]

    def lease_until_at(self, node: Node) -> float:
        """The instant by which jobs on a rented node have to be over, by the longest lease; infinity: none."""
        return math.inf if node.rented_at is None else node.rented_at + self.settings.fleet.takes_jobs_s

    @property
    def longest_run_s(self) -> float:
        """The longest run for which machines are rented."""
        return self.settings.fleet.longest_run_s(self.settings.offers)

    def lasts_s(self, job: Job) -> float:
        """The longest run time of a job that starts now: by its time limit, else as is believed."""
        limit_s = request_of(job).limit_s
        if limit_s > 0.0 and (job.run is None or not job.run.launched):
            return limit_s
        if job.account is None or not self.knows(job):
            return job.runtime_estimate_s
        restart_s = self.restart_s if job.account.attained > 0.0 else 0.0
        units = None if job.run is not None else job.spec.max_units
        return restart_s + self.believed_left_s(job) / self.rate(job, units)

    def set_limit(self, job: Job) -> None:
        """The time limit of a job is another."""
        if self._built is not None and job.job_id in self.engine.slot_of:
            self.engine.set_limit(job.job_id, request_of(job).limit_s)

    # --- machines that it rents for several jobs --------------------------------------------------------------

    @property
    def shared_offers(self) -> tuple[Offer, ...]:
        """Offers that the policy in force may rent for several jobs; none: it rents nothing so."""
        return shared_offers(self._state.ledger.policy, self.settings.offers)

    @property
    def plans_at(self) -> float | None:
        """The instant of the planner's next round; null: the policy does not plan in rounds, or there is nothing to."""
        engine = None if self.stands_by else self.engine
        if (
            not isinstance(engine, LiveNodes)
            or engine.rounds is None
            or engine.rounds.turn.next_s == math.inf
        ):
            return None
        return engine.rounds.turn.next_s + self._state.ledger.epoch_at

    def profiled_until_at(self, number: int) -> float | None:
        """Until when, at the latest, a job runs alone so that its throughput is measured; null: it does not."""
        engine = self.engine
        if not isinstance(engine, LiveNodes) or engine.rounds is None or number not in engine.slot_of:
            return None
        seq = int(engine.state.jobs[engine.slot_of[number]].seq)
        until_s = engine.rounds.profiled_until_s(seq)
        return None if until_s is None else until_s + self._state.ledger.epoch_at

    def rents(self, name: str) -> bool:
        """Whether the engine has a machine of this name, rented and given back by the policy."""
        return self._number(name) is not None

    @property
    def _machines(self) -> RentedMachines | PoolMachines | None:
        """The machines that the engine rents for several jobs; null: it rents none so."""
        return None if self._built is None else renting(self._built.engine)

    def name_machine(self, move: RentMachine, name: str) -> bool:
        """Set the cloud's name of an ordered machine; false: the engine no longer expects it."""
        machines, built = self._machines, self._built
        if machines is None or built is None or move.machine in built.machines:
            return False
        if not machines.is_there(move.machine, move.generation):
            return False
        built.machines[move.machine] = name, move.generation
        return True

    def take_machine(self, node: Node) -> None:
        """Give the engine a machine that it did not order itself."""
        machines, built, state = self._machines, self._built, self._state
        if machines is not None and built is not None and built.offered:
            number = resume_machine(machines, node, self.settings.offers, state.now_s, state.ledger.epoch_at)
            built.machines[number] = node.machine.name, machines.generation(number)

    def unanswered(self) -> list[RentMachine]:
        """The orders of machines that the cloud has neither given out nor refused."""
        machines, built = self._machines, self._built
        if machines is None or built is None:
            return []
        return [move for move in machines.booting() if move.machine not in built.machines]

    def refuse_machine(self, move: RentMachine) -> None:
        """An ordered machine is not available."""
        machines, built = self._machines, self._built
        if machines is not None and built is not None and move.machine not in built.machines:
            machines.report_refused(move.machine, move.generation, self._state.now_s)

    def machine_name(self, move: ReleaseMachine) -> str | None:
        """The name of a machine to give back; null: the cloud has not given it out yet."""
        found = self._built.machines.get(move.machine) if self._built is not None else None
        return found[0] if found is not None and found[1] == move.generation else None

    def machine_is(self, name: str, status: str, before: str) -> None:
        """A rented machine is up, or takes no new tasks."""
        number = self._number(name)
        if number is None:
            return
        if status == UP and before == BOOTING:
            self.engine.machines.report_up(number, self._state.now_s)
        else:
            self.engine.open_node(number, status == UP)
        self.look()

    def machine_gone(self, name: str, cause: int) -> None:
        """A rented machine on which nothing runs is gone; cause: as in `core.nodes.machines.rented`."""
        number = self._number(name)
        if number is None or self._built is None:
            return
        generation = self._built.machines.pop(number)[1]
        self.engine.machines.report_gone(number, generation, self._state.now_s, cause)
        self.look()

    def _number(self, name: str) -> int | None:
        built = self._built
        if built is None or self._machines is None:
            return None
        return next((number for number, (its, _) in built.machines.items() if its == name), None)

    # --- the selections of a portfolio --------------------------------------------------------------------------

    @property
    def selection_period_s(self) -> float | None:
        """Time between selections while jobs wait, s; null: no portfolio decides."""
        engine = self._built.engine if self._built is not None else None
        return engine.selects_every_s if isinstance(engine, LiveNodes) else None

    @property
    def temporary_member(self) -> str | None:
        """The member in force of a portfolio that may select another; null: the policy itself decides."""
        engine = self._built.engine if self._built is not None else None
        return engine.member if isinstance(engine, LiveNodes) and engine.changes_member else None

    def take_selection(self) -> SelectionSnapshot | None:
        """The snapshot for a selection that has become due; null: none since the last call."""
        engine = self._built.engine if self._built is not None else None
        return engine.take_selection() if isinstance(engine, LiveNodes) else None

    def put_in_force(self, member: MemberRules) -> dict[int, float | None]:
        """Let another member of the portfolio decide; returns, by job, waiting deadlines that changed, s."""
        waits = self.engine.put_in_force(member, self._state.now_s)
        if waits is None:
            return {}
        self.look()
        return dict(waits)

    # --- the answers of a planner ---------------------------------------------------------------------------------

    @property
    def rounds(self) -> LiveRounds | None:
        """The rounds of the planner in force; null: there is no planner, or it is being compiled."""
        engine = self._built.engine if self._built is not None else None
        return engine.rounds if isinstance(engine, LiveNodes) else None

    def hear_plan(self, plan: Plan) -> None:
        """Take the answer of the planner in force."""
        self._pending.plan = plan

    def machine_called(self, number: int) -> str:
        """The name of a machine by the engine's number, as `places_of` has it."""
        return self.places_of([Allocation(number, 1)])[0][0]

    # --- decisions and forecasts ------------------------------------------------------------------------------

    def catch_up(self) -> list[Decisions]:
        """Let timers before the present instant go off; the policy decides as they do."""
        return self.engine.catch_up(self._state.now_s) if self._built is not None else []

    @property
    def users(self) -> Mapping[str, User]:
        """The users, with the weights that groups leave them."""
        return self.settings.groups.weighted(self._state.ledger.users)

    @property
    def lacks_users(self) -> bool:
        """Whether an engine has to be made that knows users, or does not any more."""
        ledger, built = self._state.ledger, self._built
        return built is not None and built.is_shared != ledger.shares.is_for_engine(ledger.users)

    def _tell_users(self) -> None:
        """Let the engine know users, weights and limits that are new since the last time."""
        ledger, built = self._state.ledger, self._built
        version = (len(ledger.shares.accounts), ledger.shares.changes)
        if (
            built is None
            or not built.is_shared
            or isinstance(built.engine, Standby)
            or version == self._shares_seen
        ):
            return
        self._shares_seen = version
        sharing = ledger.shares.sharing(self.users)
        built.engine.share(sharing.holding(built.engine.state.users, HELD + HELD_OF_LATE))
        self.look()

    def decide(self) -> tuple[Inputs, list[Decisions]]:
        """Hand the inputs since the last decision to the engine; returns the inputs and the policy's decisions."""
        self._tell_users()
        what, self._pending = self._pending, Inputs()
        if self.stands_by:  # new jobs wait for the policy
            self._pending.requests, what.requests = what.requests, []
        rounds = self.engine.happen(self._state.now_s, what)
        bounded: list[tuple[int, float]] = []
        for move in (each for one in rounds for each in one.instructions if isinstance(each, Outrun)):
            job = self._state.ledger.jobs.get(move.job)
            if job is not None and (most_s := self._most_left_s(job)) < self.believed_left_s(job):
                bounded.append((move.job, most_s))
        if bounded:
            rounds = [*rounds, *self.engine.happen(self._state.now_s, Inputs(believed=bounded))]
        return what, rounds

    def _most_left_s(self, job: Job) -> float:
        """Work that a job can do before its time limit ends its run; past the limit, before it is killed.

        One that should have been killed already is believed to go on for as long again as that is ago.
        """
        limit_s, run = job.spec.time_limit_s, job.run
        if limit_s is None or job.trials is not None:  # the limit of a set is that of each trial
            return math.inf
        if job.is_suspended:
            return math.inf  # the limit waits
        left_s = limit_s - (run.ran_s(self._state.now_at) if run is not None else 0.0)
        if left_s <= 0.0:
            left_s = max(LEAST_END_S, abs(left_s + job.spec.grace_s))
        return left_s * (self.rate(job) if run else self.rate(job, job.spec.max_units))

    def foresee(
        self,
        now_s: float,
        more: JobRequest | None = None,
        grid: Floats | None = None,
        *,
        may_rent: bool = True,
    ) -> Play:
        """A copy to be played forward, with one more job if one is given. Raises Unavailable while it stands by.

        grid: the quantiles of its run time, s; null: it takes as long as is believed. may_rent: more machines.
        """
        if self.stands_by:
            raise Unavailable(
                f"compiling policy {self._state.ledger.policy}: nothing can be foreseen until that is done; "
                "ask again in a moment"
            )
        expected = self.expected()
        if more is not None and grid is not None:
            expected[more.job] = grid
        if self._machines is not None and not may_rent:
            return self.engine.foresee(now_s, more, self._openings(now_s), expected, may_rent=False)
        return self.engine.foresee(now_s, more, self._openings(now_s), expected)

    def expected(self, numbers: Iterable[int] | None = None) -> dict[int, Floats]:
        """Quantiles of the run times of those of these jobs of which more is known than is believed; null: all."""
        errors, now_at, jobs = self._state.ledger.promise_errors, self._state.now_at, self._state.ledger.jobs
        among = errors.with_kin(jobs) if numbers is None else map(jobs.__getitem__, numbers)
        known = (
            (job.job_id, grid)
            for job in among
            if job.account is not None and (grid := errors.expected(job, now_at)) is not None
        )
        return dict(known)

    def _openings(self, now_s: float) -> list[Opening]:
        """The booting nodes that the policy in force has not rented itself: it expects its own."""
        built, ledger = self._built, self._state.ledger
        boots = self.boots(now_s + ledger.epoch_at)
        if built is None or not boots:
            return []
        nodes = kept_nodes(ledger.nodes, built.offered)
        held = [ledger.jobs[number] for number in self._state.job_index.holding]
        number_of = {name: number for number, (name, _) in built.nodes.items()}
        found: list[Opening] = []
        for name, up_at in sorted(boots.items(), key=lambda each: each[1]):
            if name in number_of:
                nodes[name] = replace(nodes[name], status=UP)
                units = max(1, pool_units(nodes, held))
                found.append(Opening(up_at - ledger.epoch_at, number_of[name], units))
        return found

    def boots(self, now_at: float) -> dict[str, float]:
        """The instants at which booting nodes should be up by their offers; a late one, any moment."""
        offers = {offer.type: offer for offer in self.settings.offers}
        return {
            node.machine.name: max(node.rented_at + offer.boot_s + offer.setup_s, now_at + LATE_S)
            for node in self._state.nodes_in_brief.others
            if node.status == BOOTING
            and node.is_shared
            and node.rented_at is not None
            and (offer := offers.get(node.machine.type)) is not None
        }

    def foreseen_already(self, jobs: Sequence[int]) -> Foreseen | None:
        """The result of a play-out for jobs that all keep to their ends what they just got; None: make one."""
        times, expected = list[tuple[float, float]](), self.expected(jobs)
        for job in jobs:
            found = self.engine.sure_to_keep(job, expected)
            if found is None:
                return None
            times.append(found)
        start_s, finish_s = np.array(times).reshape(-1, 2).T
        return Foreseen(list(jobs), start_s, finish_s)

    # --- another engine ---------------------------------------------------------------------------------------

    def settle(self) -> list[int]:
        """Before another engine is made: settle the inputs of this one; returns the jobs whose runs have left.

        The new engine receives widths with the jobs; beliefs are handed to it at the next decision.
        """
        pending = self._pending
        if self._built is not None and isinstance(self._built.engine, LivePool):
            self._built.engine.retire(pending, self._state.now_s)
        pending.widths, pending.done = [], []
        return self.take_gone()

    @property
    def has_departures(self) -> bool:
        """Whether jobs or their runs have left since the last decision."""
        return bool(self._pending.done or self._pending.gone)

    def take_gone(self) -> list[int]:
        """Return the jobs whose stopped runs have exited, and do not report them to the engine again."""
        gone, self._pending.gone = self._pending.gone, []
        return gone

    def rebuild(self, policy: str, before: str | None = None) -> None:
        """Build the engine of a policy from the ledger, with all jobs; before: the policy in force, if different.

        Raises PolicyError, ClusterError.
        """
        ledger = self._state.ledger
        self._taught = ledger.measured_rates.taught(self.settings.offers)
        retired = self._built.engine if self._built is not None else None
        self._built = build(
            policy,
            ledger.nodes,
            ledger.jobs,
            before,
            self._state.now_s,
            replace(self.settings, restart_s=self.restart_s),
            epoch_at=ledger.epoch_at,
            is_compiled=self.is_compiled(policy),
            member=ledger.member if before is None else None,
            contention=retired.contention() if isinstance(retired, LivePool) else None,
            sharing=ledger.shares.sharing(self.users) if ledger.shares.is_for_engine(ledger.users) else None,
            taught=self._taught,
        )
        engine = self._built.engine
        if before is not None:
            was = kind_of(before)[0]
            self._pending.believed = [
                (number, left_s * work_factor(ledger.jobs[number], self._built.kind, was))
                for number, left_s in self._pending.believed
            ]
        if isinstance(engine, Standby):
            return
        if isinstance(engine, LivePool):
            engine.left_of = self._set_left_at
        for job in ledger.jobs.values():
            if job.is_nominated and not (
                isinstance(engine, LiveNodes) and engine.keeps_nomination(job.job_id)
            ):
                self._state.log("unbound", "policy", job.job_id)
        if self.may_close:
            self.see_closings()

    def copy_from(self, other: PolicyEngine) -> None:
        """Take over a copy of another's engine, with all that it remembers: its jobs are those of this ledger, too."""
        self._taught = other._taught
        memo: dict[int, Any] = {id(other): self}  # engines of sets call their `PolicyEngine`
        engine = other.engine
        parts = [engine, *(vars(engine)[name] for name in ("jobs", "driver") if name in vars(engine))]
        for name, value in [each for part in parts for each in vars(part).items()]:
            if name in _NEVER_CHANGED:
                memo[id(value)] = value
            elif isinstance(value, Struct):  # which are addresses of its arrays
                arrays = {key: each for key, each in value.values().items() if isinstance(each, np.ndarray)}
                copies = {key: deepcopy(each, memo) for key, each in arrays.items()}
                memo[id(value)] = value.replaced(**copies)
        self._built = deepcopy(other._built, memo)
        if (
            isinstance(self.engine, LiveNodes)
            and self.engine.rounds is not None
            and not self.settings.plans_aside
        ):
            self.engine.rounds.answer_at_once()

    def _request_for(self, job: Job) -> JobRequest:
        request = request_of(job)
        if job.trials is None:
            return request
        left_s = self.set_left_s(job, self._state.now_at)
        if job.trials.left == 1:  # as any other job
            return replace(request, runtime_estimate_s=left_s)
        return replace(request, work_s=left_s)

    def _set_left_at(self, number: int, at_s: float) -> float | None:
        """Known work left when a job outruns its estimate; null: it is no set, so nothing is known."""
        job = self._state.ledger.jobs[number]
        if job.trials is None:
            return None
        least_s = usual_s(job.trials.runtime_estimate_s, job.trials.taken_s, job.trials.finished)
        return max(self.set_left_s(job, at_s + self._state.ledger.epoch_at), least_s) * SLACK
