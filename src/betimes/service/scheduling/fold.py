"""The fold of the log: `apply` makes the change of an event to the ledger, live or when recovering.

Events hold the policy's decisions, so that recovering never asks it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from betimes.cluster.interference import workload_of
from betimes.errors import StoreDamaged, StoreError
from betimes.foresight.promise_model import Queue
from betimes.service.machines.budgets import DAY, DAY_S, MONTH, period_name, period_since
from betimes.service.machines.machine import RENTED
from betimes.service.scheduling.beliefs import USUAL_S
from betimes.service.scheduling.charges import Charge
from betimes.service.scheduling.events import KINDS, Event
from betimes.service.scheduling.job import Job, MoveRecord, Preemption, Rental, Run, TrialSet, paid_until
from betimes.service.scheduling.job_states import Status, Transition, next_status
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import NODE, UP, charges_until
from betimes.service.scheduling.policy_record import PolicyRecord
from betimes.service.scheduling.promises import INTERVAL, judged
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.users import User

NEWS_FRAC = 0.05  # of the time until a promised end: a jump of the clock by more makes the promise void
MOST_SET_ASIDE = 50  # that the ledger knows; the log has all

_RESTORE = "the log was changed by a disk, a hand or another version; restore the database from a backup"

Change = Callable[[Ledger, Event, Any], Job | None]


def _opened(ledger: Ledger, event: Event, _: Job | None) -> None:
    ledger.epoch_at = event.data["epoch_at"]


def _submitted(ledger: Ledger, event: Event, _: Job | None) -> Job:
    data = event.data
    job = Job(
        job_id=int(event.job or 0),
        spec=JobSpec(**data["spec"]),
        user=data["user"],
        submitted_at=event.at_s,
        runtime_estimate_s=data["believed_s"],
        basis=data["basis"],
        array_id=data.get("array_id"),
        array_index=data.get("array_index"),
        array_most=data.get("array_most", 0),
        set_id=data.get("set_id"),
        trials=TrialSet(**data["trials"]) if "trials" in data else None,
    )
    job.not_before_at = job.spec.begin_at or 0.0
    job.status = next_status(None, Transition.SUBMIT)
    job.reason = data.get("reason")
    ledger.jobs[job.job_id] = job
    if ledger.shares.half_life_s is not None or ledger.users:
        ledger.shares.open([job.user], (), event.at_s - ledger.epoch_at)
    ledger.next_job = max(ledger.next_job, job.job_id + 1)
    ledger.promise_errors.submitted(job)
    return job


def _moved(step: Transition) -> Change:
    def change(_: Ledger, event: Event, job: Job) -> None:
        job.status = next_status(job.status, step)
        job.reason = event.data.get("reason")

    return change


def _queued(_: Ledger, event: Event, job: Job) -> None:
    job.status = next_status(job.status, Transition.QUEUE)
    job.reason = None
    if "account" in event.data:  # trials have none
        job.settle(event.data["account"])
    job.runtime_estimate_s, job.basis = event.data["believed_s"], event.data["basis"]


def _held(ledger: Ledger, event: Event, job: Job) -> None:
    job.status = next_status(job.status, Transition.HOLD)
    job.reason, job.account, job.binding, job.rental = event.data["reason"], None, None, None
    job.units, job.places, job.run = 0, [], None
    _void_promise(ledger, job)  # it is promised anew when it queues


def _void_promise(ledger: Ledger, job: Job) -> None:
    """A job's promise counts no more: something that it rested on has changed."""
    job.promised_finish_at = job.promised_within = job.judged = job.broken_until_at = job.quoted = None
    ledger.promise_errors.void(job)


def _edited(ledger: Ledger, event: Event, job: Job) -> None:
    data = event.data
    job.spec = JobSpec(**data["spec"])
    job.runtime_estimate_s, job.basis = data["believed_s"], data["basis"]
    if "begin_at" in data["changes"]:
        job.not_before_at = max(job.spec.begin_at or 0.0, job.not_before_at if job.failures else 0.0)
    if data["leaves"]:  # the queue: it waits for something else now
        job.status = next_status(job.status, Transition.BLOCK)
        job.account, job.binding = None, None
    if data["voids"]:
        _void_promise(ledger, job)
    ledger.promise_errors.edited(job)


def _granted(_: Ledger, event: Event, job: Job) -> None:
    """The policy grants the job so many units, or none."""
    data = event.data
    job.units = data["units"]
    job.places = [(str(node), int(units)) for node, units in data["places"]]
    if job.units:
        job.units_per_task = data.get("units_per_task", 1)
    if "account" in data:
        job.settle(data["account"])
    if job.rental is not None and job.units:
        job.rental.is_up, job.rental.speculates_until_s = True, data.get("speculates_until_s")
    job.reason, job.binding = None if job.units else data.get("reason"), None
    if job.trials is not None:
        return  # the runs are its trials'
    run = job.run
    if job.units and run is None:
        job.run = Run(job.attempt + 1, job.units, job.places, event.at_s)
    elif job.units and run is not None and not run.launched:
        run.units, run.places = job.units, job.places
    elif not job.units and run is not None and not run.launched:
        job.run = None  # never launched


def _blocked(ledger: Ledger, event: Event, job: Job) -> None:
    job.reason = event.data["reason"]
    if job.status is Status.QUEUED:  # it waits for something else now
        job.status = next_status(job.status, Transition.BLOCK)
        job.account, job.binding = None, None
        job.units, job.places, job.run = 0, [], None
        _void_promise(ledger, job)  # it is promised anew when it queues


def _bound(_: Ledger, event: Event, job: Job) -> None:
    """The job gets these nodes once its victims have left, or from an instant on."""
    job.binding = event.data or None
    if job.binding is None and job.next_move is not None and job.next_move.left_at is None:
        job.next_move = None  # it stays where it is


def _migrating(_: Ledger, event: Event, job: Job) -> None:
    if "move" in event.data:
        job.next_move = MoveRecord(**event.data["move"])


def _move_over(ledger: Ledger, _: Event, job: Job) -> None:
    job.move = None
    ledger.moved.discard(job.job_id)


def _measured(ledger: Ledger, event: Event, job: Job) -> None:
    per_s, on, spec, run = event.data["alone_per_s"], tuple(event.data.get("on", ())), job.spec, job.run
    job.alone_per_s, job.alone_on = per_s, on
    if spec.workload is not None and not spec.unit.speeds and len(on) == 1 and run is not None:
        ledger.measured_rates.took(workload_of(spec.workload), run.units, on[0], job.job_id, per_s)


def _stopping(ledger: Ledger, event: Event, job: Job) -> None:
    """The job's run is stopping."""
    data = event.data
    job.status = next_status(job.status, Transition.STOP)
    if job.run is not None:
        if job.run.stopping != "cancelled":
            job.run.stopping = data["why"]
        job.run.stop_by_at = data["stop_by_at"]
    job.restarting_since_at = event.at_s if data["why"] == "resized" else None
    if data["why"] == "requeued":
        _void_promise(ledger, job)  # it is promised anew once it waits again
    if data["why"] == "preempted":
        job.makes_room_for = data.get("makes_room_for")
    if data.get("account"):
        job.settle(data["account"])
    job.reason = data.get("reason")


def _width(_: Ledger, event: Event, job: Job) -> None:
    """A set of trials can use so many units from now on."""
    if job.trials is not None:
        job.trials.width = event.data["units"]


def _launched(ledger: Ledger, event: Event, job: Job) -> None:
    data = event.data
    if job.run is None or job.run.number != data["number"]:
        job.run = Run(data["number"], data["units"], [], event.at_s)
    job.run.launched = True
    job.run.units = data["units"]
    job.run.places = [(str(node), int(units)) for node, units in data["places"]]
    job.attempt = job.run.number
    job.status = next_status(job.status, Transition.START)
    job.reason = None
    if job.next_move is not None and job.next_move.left_at is not None:
        job.move, job.next_move = job.next_move.resumed(event.at_s), None
        ledger.moved.add(job.job_id)
    if (whole := set_of(ledger.jobs, job)) is not None:
        whole.trials.running += 1
        if whole.job.status is Status.QUEUED:
            whole.job.status = next_status(whole.job.status, Transition.START)


def _started(ledger: Ledger, event: Event, job: Job) -> None:
    _note_start(ledger, job, event.data.get("started_at", event.at_s))


def _note_start(ledger: Ledger, job: Job, at: float) -> None:
    if job.run is not None:
        job.run.started_at = at
        ledger.hold_nodes(job, at)
    if job.started_at is None:
        job.started_at = at
        ledger.promise_errors.started(job, at)
    if (whole := set_of(ledger.jobs, job)) is not None and whole.job.started_at is None:
        whole.job.started_at = at


def _restarted(ledger: Ledger, event: Event, job: Job) -> None:
    job.restarting_since_at = None
    ledger.restart_cost.took(event.data["took_s"])


def _suspended(ledger: Ledger, event: Event, job: Job) -> None:
    if job.run is not None:
        job.run.suspended_at, job.run.left_s = event.at_s, event.data["left_s"]
    job.reason = event.data["reason"]
    _void_promise(ledger, job)  # it is promised anew when it goes on


def _resumed(_: Ledger, event: Event, job: Job) -> None:
    if job.run is not None:
        job.run.suspended_s = job.run.paused_s(event.at_s) - job.run.asleep_s
        job.run.suspended_at = job.run.left_s = None
    job.reason = None


def _slept(_: Ledger, event: Event, job: Job) -> None:
    if job.run is not None and job.run.suspended_at is None:  # else it stood still in any case
        job.run.asleep_s += event.data["for_s"]


def _resized(ledger: Ledger, event: Event, job: Job) -> None:
    if job.run is not None:
        before = job.run.places
        job.run.units = event.data["units"]
        job.run.places = [(str(node), int(units)) for node, units in event.data["places"]]
        there = {name for name, _ in job.run.places}
        _leave(ledger, job, event, event.at_s, [each for each in before if each[0] not in there])
        ledger.hold_nodes(job, event.at_s)


def _ended(ledger: Ledger, event: Event, job: Job) -> None:
    """The job's run has ended; the job's next status is another event."""
    data = event.data
    job.left_at = data.get("ended_at")
    if "started_at" in data:  # the service was gone before it knew that it ran
        _note_start(ledger, job, data["started_at"])
    run_s = 0.0 if job.run is None else job.run.ran_s(job.left_at or event.at_s)
    run_s = float(data.get("run_s", run_s))
    job.last_ran_s, job.ran_s = run_s, job.ran_s + run_s
    if job.run is not None:
        _leave(ledger, job, event, job.left_at or event.at_s, job.run.places)
    if job.run is not None and (whole := set_of(ledger.jobs, job)) is not None:
        whole.trials.running -= 1
    if job.next_move is not None:
        job.next_move = job.next_move.left(event.at_s)
    job.run = None
    job.makes_room_for = None
    ledger.promise_errors.stopped(job)


def _waits(ledger: Ledger, event: Event, job: Job) -> None:
    job.status = next_status(job.status, Transition.WAIT)
    job.losses = job.losses + 1 if (event.data.get("reason") or {}).get("code") == "lost" else 0
    if "account" in event.data:
        job.settle(event.data["account"])
    if not event.data.get("keeps_units"):
        job.units, job.places, job.run, job.restarting_since_at = 0, [], None, None
    elif job.units:
        job.run = Run(job.attempt + 1, job.units, job.places, event.at_s)
    job.reason, job.left_at = event.data.get("reason"), None
    rest(ledger.jobs, job)


def _retries(ledger: Ledger, event: Event, job: Job) -> None:
    job.status = next_status(job.status, Transition.BLOCK)
    job.units, job.places, job.account, job.rental = 0, [], None, None
    job.failures += 1
    job.not_before_at = event.data["not_before_at"]
    job.reason, job.left_at = event.data["reason"], None
    rest(ledger.jobs, job)


def _over(step: Transition) -> Change:
    def change(ledger: Ledger, event: Event, job: Job) -> None:
        job.status = next_status(job.status, step)
        job.finished_at = event.at_s if job.left_at is None else job.left_at
        if job.trials is not None and job.started_at is not None:
            job.last_ran_s = job.finished_at - job.started_at
        if step is Transition.FINISH and job.units > 0 and job.trials is None:
            since_at = event.at_s if job.started_at is None else job.started_at
            tasks = max(1, job.units // max(1, job.units_per_task))
            ledger.record.finished(since_at - job.submitted_at, event.data["run_s"], tasks)
        job.units, job.places, job.account, job.run, job.binding = 0, [], None, None, None
        job.rental = None
        job.reason = event.data.get("reason")
        if step is Transition.FINISH:
            job.progress_frac = 1.0
        if step is Transition.FINISH and job.trials is None:  # in a set, each trial has reported
            key, run_s = job.spec.history_key, event.data["run_s"]
            ledger.runtime_estimates.finished(job.user, key, job.spec.title, run_s)
        if step is Transition.FINISH:
            run_s = event.data["run_s"] if job.trials is None else None
            ledger.promise_errors.finished(job, job.finished_at, run_s)
        else:
            ledger.promise_errors.dropped(job)
        if (whole := set_of(ledger.jobs, job)) is not None:
            whole.trials.finished += step is Transition.FINISH
            whole.trials.failed += step is Transition.FAIL
            whole.trials.cancelled += step is Transition.CANCEL
            whole.trials.taken_s += job.ran_s if step is Transition.FINISH else 0.0
            rest(ledger.jobs, job)

    return change


def _believed(_: Ledger, event: Event, job: Job) -> None:
    job.settle(event.data["account"])
    job.basis = event.data["basis"]
    if "progress_frac" in event.data:
        job.progress_frac = event.data["progress_frac"]


def _cancel_asked(_: Ledger, event: Event, job: Job) -> None:
    job.cancelled_by = event.cause


def _quoted(ledger: Ledger, event: Event, job: Job) -> None:
    quote = event.data["quote"]
    if job.promised_finish_at is None:
        job.promised_finish_at = event.data["finish_at"]
        if quote.get("level") is not None:
            job.promised_within = {name: quote[name] for name in INTERVAL}
    if job.judged is None:
        job.judged = judged(job, quote)
    job.quoted = {name: quote[name] for name in ("quote_id", "made_at", "start_at", "finish_at")}
    queue = Queue(*event.data.get("queue", (0, 0, 0.0)))  # earlier versions did not note it
    learned = event.data.get("learned")
    learned = None if learned is None else tuple(learned)
    earliest_at = event.data.get("earliest_at", quote["made_at"])
    ledger.promise_errors.promised(job, quote, queue, learned, earliest_at)


def _promise_broken(_: Ledger, event: Event, job: Job) -> None:
    job.judged, job.broken_until_at = None, event.data["promise"]["until_at"]


def _rents(_: Ledger, event: Event, job: Job) -> None:
    """Machines are requested for the job alone."""
    data = event.data
    job.rental = Rental(
        data["type"],
        [int(units) for units in data["units"]],
        data["units_per_task"],
        event.at_s,
        data.get("speculates_until_s"),
        data["expected_usd"],
    )
    job.settle(data["account"])
    job.reason, job.binding = data.get("reason"), None


def _unrented(_: Ledger, event: Event, job: Job) -> None:
    """The job has lost its rented machines; its run, if there is one, is still to leave them."""
    job.rental, job.units, job.places = None, 0, []
    job.settle(event.data["account"])
    job.reason = event.data.get("reason")
    if job.run is not None and not job.run.launched:
        job.run = None


def _node_added(ledger: Ledger, event: Event, _: Job | None) -> None:
    node = NODE.validate_python(event.data)
    name, kind = node.machine.name, node.machine.type
    job = ledger.jobs.get(node.for_job) if node.for_job is not None else None
    if job is not None and job.rental is not None and name not in job.rental.nodes:
        job.rental.nodes.append(name)
    before = ledger.nodes.get(name)
    if node.rented_at is not None and before is None:
        ledger.rented[kind] = ledger.rented.get(kind, 0) + 1
    elif node.rented_at is not None and before is not None:
        node.earlier_prices = before.earlier_prices
        if before.machine.usd_per_h not in (None, node.machine.usd_per_h):
            node.earlier_prices += ((event.at_s, before.machine.usd_per_h),)
    if before is not None:
        node.account = before.account
    ledger.nodes[name] = node


def _node_is(ledger: Ledger, event: Event, _: Job | None) -> None:
    node = ledger.nodes[str(event.node)]
    node.status = event.data["status"]
    node.since_at = event.at_s if node.is_away else None
    if node.status == UP and node.rented_at is not None and node.up_at is None:
        node.up_at = event.data.get("up_at", event.at_s)


def _node_goes(ledger: Ledger, event: Event, _: Job | None) -> None:
    if (budget := event.data.get("budget")) is not None:
        known = ledger.reached.items()
        ledger.reached = {key: each for key, each in known if each["until_at"] > event.at_s}
        ledger.reached[budget_key(budget["user"], budget["period"])] = budget
    if event.node is None:
        return  # a user's budget is spent
    node = ledger.nodes[event.node]
    node.goes_at, node.goes_since = event.data.get("goes_at"), event.data.get("text")


def budget_key(user: str | None, period: str) -> str:
    """Of a budget in `Ledger.reached`; null: of all rented machines together."""
    return f"{period} {user or ''}"


def _node_watched(ledger: Ledger, event: Event, _: Job | None) -> None:
    ledger.nodes[str(event.node)].watched = True


def _node_gone(ledger: Ledger, event: Event, _: Job | None) -> None:
    name = str(event.node)
    node = ledger.nodes.pop(name)
    ledger.record.machine_s += event.data.get("charged_s", 0.0)
    usd = event.data.get("cost_usd", 0.0)
    if usd or node.account.holdings or node.account.charged_usd:
        for charge in charges_until(node, usd, event.data.get("ended_at", event.at_s)):
            _count(ledger, event, charge)
    if event.data["machine"]["kind"] in RENTED or event.data["why"] != "given-back":
        _note_gone(ledger, event)


def _node_billed(ledger: Ledger, event: Event, _: Job | None) -> None:
    node, until_at = NODE.validate_python(event.data), event.data.get("ended_at", event.at_s)
    for charge in charges_until(node, event.data["more_usd"], until_at):
        _count(ledger, event, charge)
    _note_gone(ledger, event)


def _note_gone(ledger: Ledger, event: Event) -> None:
    ledger.gone_nodes[str(event.node)] = {**event.data, "counted_at": event.at_s}
    for name, gone in list(ledger.gone_nodes.items()):
        if gone["counted_at"] < event.at_s - DAY_S:
            del ledger.gone_nodes[name]


def _leave(ledger: Ledger, job: Job, event: Event, at: float, places: Iterable[tuple[str, int]]) -> None:
    """The job's run holds nothing any more of the machines of these places."""
    for name, _ in places:
        node = ledger.nodes.get(name)
        charge = None if node is None else node.account.leave(node.prices, name, job.job_id, at)
        if charge is not None:
            _count(ledger, event, charge)


def _count(ledger: Ledger, event: Event, charge: Charge) -> None:
    """Add a charge to the present day and month, and to what its user has spent in them."""
    ledger.charges.append(charge)
    counted = dict[str, float]()
    for period in (DAY, MONTH):
        since_at = period_since(period, event.at_s)
        key, usd = f"{period} {since_at:.0f}", charge.usd_in(since_at)
        counted[key] = ledger.gone_usd.get(key, 0.0) + usd
    ledger.gone_usd = counted
    if charge.user is None:
        return
    spent, today = ledger.spent_usd.setdefault(charge.user, {}), period_name(DAY, event.at_s)
    for name in [name for name in spent if len(name) == len(today) and name != today]:
        del spent[name]
    for period in (DAY, MONTH):
        name = period_name(period, event.at_s)
        spent[name] = spent.get(name, 0.0) + charge.usd_in(period_since(period, event.at_s))


def _clock_set(ledger: Ledger, event: Event, _: Job | None) -> None:
    """The service's clock goes on from `at_s` plus what it is put forward by."""
    by_s = event.data["stepped_s"]
    for job in ledger.jobs.values():
        if delays_retry(job, event.at_s):
            job.not_before_at += by_s
        if job.promised_finish_at is not None and by_s > NEWS_FRAC * (job.promised_finish_at - event.at_s):
            _void_promise(ledger, job)


def delays_retry(job: Job, at: float) -> bool:
    """Whether a job waits for the end of the delay before its next try, and not for an instant that its user named."""
    is_delay = job.failures > 0 and job.not_before_at != job.spec.begin_at
    return job.status is Status.BLOCKED and is_delay and job.not_before_at > at


def _set_aside(ledger: Ledger, event: Event, _: Job | None) -> None:
    kept = [one for one in ledger.set_aside if one["job"] in ledger.jobs or one["at"] > event.at_s - DAY_S]
    kept = [one for one in kept if one["what"] != event.data["what"]]
    data = {"what": event.data["what"], "error": event.data["error"]}
    ledger.set_aside = [*kept, {"at": event.at_s, "job": event.job, **data}][-MOST_SET_ASIDE:]


def _idle(ledger: Ledger, event: Event, _: Job | None) -> None:
    ledger.idle = event.data["reason"]


def _policy_set(ledger: Ledger, event: Event, _: Job | None) -> None:
    ledger.policy, ledger.policy_since_at = event.data["policy"], event.at_s
    ledger.member, ledger.record = None, PolicyRecord()
    for job_id, account in event.data.get("accounts", {}).items():
        ledger.jobs[int(job_id)].settle(account)


def _user_set(ledger: Ledger, event: Event, _: Job | None) -> None:
    user = User(name=event.data["user"], **{name: event.data[name] for name in event.data if name != "user"})
    ledger.users[user.name] = user
    ledger.shares.changes += 1
    ledger.shares.open([user.name], ledger.jobs.values(), event.at_s - ledger.epoch_at)


def _fair_share_set(ledger: Ledger, event: Event, _: Job | None) -> None:
    now_s = event.at_s - ledger.epoch_at
    ledger.shares.set_half_life(event.data["half_life_s"], now_s)
    ledger.shares.changes += 1
    if ledger.shares.half_life_s is not None:
        ledger.shares.open(ledger.users, ledger.jobs.values(), now_s)


def _selected(ledger: Ledger, event: Event, _: Job | None) -> None:
    if not event.data["shadow"]:
        ledger.member = event.data["member"]
    for job_id, until_s in event.data.get("waits_until_s", ()):
        if (account := ledger.jobs[job_id].account) is not None:
            account.waits_until_s = until_s


CHANGES: dict[str, Change] = {
    "opened": _opened,
    "submitted": _submitted,
    "queued": _queued,
    "blocked": _blocked,
    "held": _held,
    "released": _moved(Transition.RELEASE),
    "edited": _edited,
    "granted": _granted,
    "nominated": _bound,
    "reserved": _bound,
    "unbound": _bound,
    "migrating": _migrating,
    "moved": _move_over,
    "rents": _rents,
    "unrented": _unrented,
    "stopping": _stopping,
    "parallelism-changed": _width,
    "launched": _launched,
    "started": _started,
    "restarted": _restarted,
    "resized": _resized,
    "suspended": _suspended,
    "resumed": _resumed,
    "slept": _slept,
    "ended": _ended,
    "requeued": _waits,
    "retries": _retries,
    "cancel-requested": _cancel_asked,
    "finished": _over(Transition.FINISH),
    "failed": _over(Transition.FAIL),
    "cancelled": _over(Transition.CANCEL),
    "estimate-changed": _believed,
    "measured": _measured,
    "learnt": lambda ledger, event, _: apply_learnt(ledger.jobs, event.data),
    "quoted": _quoted,
    "promise-broken": _promise_broken,
    "node-added": _node_added,
    "node-status": _node_is,
    "node-watched": _node_watched,
    "node-noticed": _node_goes,
    "limit-reached": _node_goes,
    "node-gone": _node_gone,
    "node-billed": _node_billed,
    "maintenance-set": lambda ledger, event, _: ledger.maintenance.set(event),
    "maintenance-removed": lambda ledger, event, _: ledger.maintenance.end(event),
    "maintenance-over": lambda ledger, event, _: ledger.maintenance.end(event),
    "policy-set": _policy_set,
    "user-set": _user_set,
    "fair-share-set": _fair_share_set,
    "selected": _selected,
    "clock-set": _clock_set,
    "set-aside": _set_aside,
    "idle": _idle,
}
"""The change by each kind of event; others (displaces, goes-on, ...) change nothing by themselves."""


def set_of(jobs: Mapping[int, Job], job: Job) -> Whole | None:
    """The set that a trial belongs to; null: the job is none."""
    whole = jobs.get(job.set_id) if job.set_id is not None else None
    return Whole(whole, whole.trials) if whole is not None and whole.trials is not None else None


def rest(jobs: Mapping[int, Job], job: Job) -> None:
    """Let a set wait once none of its remaining trials runs."""
    whole = set_of(jobs, job)
    if whole is None or whole.trials.running or not whole.trials.left:
        return
    if whole.job.status is Status.RUNNING:
        whole.job.status = next_status(whole.job.status, Transition.WAIT)


class Whole(NamedTuple):
    """A set and the state of its trials."""

    job: Job
    trials: TrialSet


def apply_learnt(jobs: Mapping[int, Job], data: Mapping[str, Any]) -> None:
    """Give the jobs of an event `learnt` its believed run time."""
    for group in data["groups"]:
        for first, last in group["jobs"]:
            for number in range(first, last + 1):
                job = jobs[number]
                job.runtime_estimate_s, job.basis = data["believed_s"], data["basis"]
                if job.account is not None:
                    job.account.left_s, job.account.size_s = group["left_s"], group["size_s"]
    for number, account in data["accounts"].items():
        job = jobs[int(number)]
        job.runtime_estimate_s, job.basis = data["believed_s"], data["basis"]
        job.settle(account)


_WHO_RUNS_WHERE = ("launched", "ended", "node-added")
"""The kinds of events that change what runs on a node, or what the node costs."""


def _count_paid_by_moved(ledger: Ledger, event: Event, job: Job | None) -> None:
    """Before nodes get other runs or prices: count what moved jobs there have paid until now."""
    if not ledger.moved or event.kind not in _WHO_RUNS_WHERE:
        return
    if job is None:
        changed = {event.data["machine"]["name"]}
    elif event.kind == "launched":
        changed = {str(name) for name, _ in event.data["places"]}
    else:
        changed = {name for name, _ in job.run.places} if job.run is not None else set[str]()
    moved = [ledger.jobs[number] for number in sorted(ledger.moved)]
    paying = [
        each
        for each in moved
        if each.run is not None and each.run.launched and any(name in changed for name, _ in each.run.places)
    ]
    for each, move in paid_until(paying, ledger.jobs, ledger.nodes, event.at_s):
        each.move = move


def apply(ledger: Ledger, event: Event) -> Job | None:
    """Let an event have happened; returns its job, also when this was its last event."""
    if event.event_id != ledger.next_event:
        raise StoreError(
            f"the event log goes on with {event.event_id} where {ledger.next_event} should follow; "
            "restore the database from a copy"
        )
    ledger.next_event += 1
    ledger.charges = []
    ledger.last_at = max(ledger.last_at, event.at_s)
    ledger.promise_errors.passed(event.at_s)
    change = CHANGES.get(event.kind)
    job = ledger.jobs.get(event.job) if event.job is not None else None
    if event.job is not None and job is None and event.kind != "submitted":
        return None  # it was over within the turn; a promise may still have been on its way
    _count_paid_by_moved(ledger, event, job)
    before = job.units if job is not None else 0
    if change is not None:
        job = change(ledger, event, job) or job
    if ledger.shares.accounts and job is not None:
        ledger.shares.moved(job, before, event.at_s - ledger.epoch_at)
    if job is not None and "preemption" in event.data:
        job.preemption = Preemption(**event.data["preemption"])
    return job


def recovered(body: bytes | None, events: Iterable[Event], default_run_s: float = USUAL_S) -> Ledger:
    """The ledger of a snapshot, if there is one, and of the events that follow it."""
    ledger = Ledger(default_run_s) if body is None else Ledger.from_bytes(body, default_run_s)
    follow(ledger, events)
    return ledger


def follow(ledger: Ledger, events: Iterable[Event]) -> None:
    """Let events of a log have happened."""
    for event in events:
        job = _read(ledger, event)
        if job is not None and job.status.is_over:
            ledger.forget(job)


def _read(ledger: Ledger, event: Event) -> Job | None:
    """`apply` of an event that was kept: one that this version cannot read is refused, not guessed at."""
    if event.kind not in KINDS:
        raise StoreDamaged(f"event {event.event_id} is of no known kind ({event.kind!r:.60}); {_RESTORE}")
    try:
        return apply(ledger, event)
    except StoreError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise StoreDamaged(
            f"event {event.event_id} ({event.kind}) cannot be read ({why}); {_RESTORE}"
        ) from error
