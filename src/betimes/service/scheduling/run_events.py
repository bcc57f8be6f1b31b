"""The kinds of events about runs: what the policy grants, what executors report, and what moves cost and save."""

from __future__ import annotations

from typing import Annotated, Any

from betimes.service.scheduling.events import VANISHED, Event
from betimes.service.scheduling.job import Job, MoveRecord, Run, paid_until
from betimes.service.scheduling.job_states import Status, Transition, next_status
from betimes.service.scheduling.kind import (
    ACCOUNT,
    MOVE,
    PLACES,
    PREEMPTION,
    REASON,
    Data,
    Kind,
    places_text,
    reason_text,
    units_text,
)
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.promise_events import void_promise
from betimes.service.scheduling.reasons import reason
from betimes.service.scheduling.sets import set_of
from betimes.units import instant, length, usd


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


def _bound(_: Ledger, event: Event, job: Job) -> None:
    """The job gets these nodes once its victims have left, or from an instant on."""
    job.binding = event.data or None
    if job.binding is None and job.next_move is not None and job.next_move.left_at is None:
        job.next_move = None  # it stays where it is


def _migrating(_: Ledger, event: Event, job: Job) -> None:
    if "move" in event.data:
        job.next_move = MoveRecord(**event.data["move"])


def _reconfigured(ledger: Ledger, event: Event, _: Job | None) -> None:
    ledger.reconfiguration = event.data


def _move_over(ledger: Ledger, _: Event, job: Job) -> None:
    job.move = None
    ledger.moved.discard(job.job_id)


def _stopping(ledger: Ledger, event: Event, job: Job) -> None:
    """The job's run is stopping."""
    data = event.data
    job.status = next_status(job.status, Transition.STOP)
    if job.run is not None:
        if job.run.stopping != "cancelled":
            job.run.stopping = data["why"]
        job.run.stop_by_at = data["stop_by_at"]
        job.run.stopping_at = event.at_s if job.run.stopping_at is None else job.run.stopping_at
    job.restarting_since_at = event.at_s if data["why"] == "resized" else None
    if data["why"] == "requeued":
        void_promise(ledger, job)  # it is promised anew once it waits again
    if data["why"] == "preempted":
        job.makes_room_for = data.get("makes_room_for")
    if data.get("account"):
        job.settle(data["account"])
    job.reason = data.get("reason")


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
    void_promise(ledger, job)  # it is promised anew when it goes on


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
        gone = [each for each in before if each[0] not in there]
        ledger.leave_nodes(job, event.at_s, gone, event.at_s)
        ledger.hold_nodes(job, event.at_s)


def _ended(ledger: Ledger, event: Event, job: Job) -> None:
    """The job's run has ended; the job's next status is another event."""
    data = event.data
    job.left_at = data.get("ended_at")
    if "started_at" in data:  # the service was gone before it knew that it ran
        _note_start(ledger, job, data["started_at"])
    run_s = 0.0 if job.run is None else job.run.ran_s(job.left_at or event.at_s)
    run_s = float(data.get("run_s", run_s))
    job.last_ran_s = run_s
    if data["outcome"] in VANISHED or data.get("signal") is not None:
        job.lost_s += run_s  # it saved nothing when it went, as far as is known
    else:
        job.ran_s += run_s
        if job.run is not None and job.run.stopping_at is not None:
            job.leaving_s += min(run_s, max(0.0, (job.left_at or event.at_s) - job.run.stopping_at))
    if job.run is not None:
        ledger.leave_nodes(job, job.left_at or event.at_s, job.run.places, event.at_s)
    if job.run is not None and (whole := set_of(ledger.jobs, job)) is not None:
        whole.trials.running -= 1
    if job.next_move is not None:
        job.next_move = job.next_move.left(event.at_s)
    job.run = None
    job.makes_room_for = None
    ledger.promise_errors.stopped(job)


def _goes_on(_: Ledger, event: Event, job: Job) -> None:
    if job.run is not None and "kept_s" in event.data:  # earlier versions counted all of it as kept
        kept_s, job.run.resumed_frac = event.data["kept_s"], event.data["frac"]
        job.ran_s, job.lost_s = kept_s, job.ran_s + job.lost_s - kept_s
        job.leaving_s = 0.0  # it is told what was kept


_WHO_RUNS_WHERE = ("launched", "ended", "node-added")
"""The kinds of events that change what runs on a node, or what the node costs."""


def count_paid_by_moved(ledger: Ledger, event: Event, job: Job | None) -> None:
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


def _granted_words(data: Data) -> str:
    if data["units"] == 0:
        return "no unit: other jobs come first"
    return units_text(data["units"]) + places_text(data["places"])


def _nominated_words(data: Data) -> str:
    if not data.get("places"):
        return "no job is preempted for it any more"
    if not any(any(one) for one in data.get("owed", ())):
        return f"it is to start{places_text(data['places'])}, once all of it is up"
    return f"other jobs are preempted for it{places_text(data['places'])}"


def _migrating_words(data: Data) -> str:
    when = "once there is room, and all of it is up" if data["keeps_running"] else "at once"
    text = f"moves {when}:{places_text(data['places'])} instead of{places_text(data['before'])}"
    if "move" not in data:
        return text
    move = MoveRecord(**data["move"])
    saving = usd(move.expected_saving_usd_per_h)
    return f"{text}; expected to save {saving} an hour, for {usd(move.expected_cost_usd)}"


def _reconfigured_words(data: Data) -> str:
    jobs, ended, rented, move = len(data["jobs"]), data["ended"], data["rented"], MoveRecord(**data["move"])
    machines = f", ends {_machines(ended)}" if ended else ""
    machines += f", rents {_machines(rented)}" if rented else ""
    saving = usd(move.expected_saving_usd_per_h)
    text = (
        f"moves {jobs} job{'' if jobs == 1 else 's'}{machines}; expected to save {saving} an hour as a whole"
    )
    return f"{text}, for {usd(move.expected_cost_usd)}"


def _machines(count: int) -> str:
    return f"{count} machine{'' if count == 1 else 's'}"


def _moved_words(data: Data) -> str:
    move = MoveRecord(**data["move"])
    if move.saving_usd_per_h is None or move.cost_usd is None:
        return "the run that followed the move was over at once"
    expected = f"{usd(move.expected_saving_usd_per_h)} an hour, for {usd(move.expected_cost_usd)}"
    ran = length(move.hours * 3600.0)
    came = f"{usd(move.saving_usd_per_h)} an hour for {ran}, for {usd(move.cost_usd)}"
    return f"the move saved {came}; expected: {expected}"


def _stopping_words(data: Data) -> str:
    by_at = data["stop_by_at"]
    return data["reason"]["text"] + (f", by {instant(by_at)} at the latest" if by_at else "")


def _launched_words(data: Data) -> str:
    return _width_words(data) + _cost_words("its restart", data, "restart_node_s")


def _width_words(data: Data) -> str:
    return f"run {data['number']}, {units_text(data['units'])}{places_text(data['places'])}"


def _started_words(data: Data) -> str:
    return f"run {data['number']}" + (" was found running" if data["adopted"] else "")


def _ended_words(data: Data) -> str:
    text = f"run {data['number']}, {data['outcome']}"
    if data.get("exit_code") is not None:
        text += f", exit code {data['exit_code']}"
    if data.get("signal") is not None:
        text += f", signal {data['signal']}"
    text += f": {data['message']}" if data.get("message") else ""
    return text + _cost_words("making room", data, "vacating_node_s")


def _lost_words(data: Data) -> str:
    goes_on = f"run {data['number']} goes on at {data['frac']:.0%}"
    return goes_on + _cost_words("doing again", data, "lost_node_s")


def _cost_words(of_what: str, data: Data, name: str) -> str:
    """The cost that an event adds to a preemption, if any."""
    node_s = data["preemption"][name] if "preemption" in data else None
    if not node_s:
        return ""
    return (
        f"; {of_what} cost {node_s:,.3g} node-s" if node_s < 100 else f"; {of_what} cost {node_s:,.0f} node-s"
    )


def keeps_still(number: int, user: str, at: float) -> dict[str, Any]:
    """The reason of a job whose run a user has suspended."""
    text = (
        f"suspended by {user} at {instant(at)}, and keeps its units; `betimes resume {number}` lets it go on"
    )
    return reason("suspended", text, user=user, at=at)


KINDS: dict[str, Kind[Ledger]] = {
    "granted": Kind(
        "the policy gives a job a number of units, or none",
        _granted,
        _granted_words,
        data={"units": int, "places": PLACES},
        more={"account": ACCOUNT, "units_per_task": int, "speculates_until_s": float, "before": int},
    ),
    "nominated": Kind(
        "a job is to start on these nodes, once other jobs have made room there, or machines are up",
        _bound,
        _nominated_words,
        data={"places": PLACES},
        more={"owed": Annotated[list[list[int]], "of each place: what is missing"]},
    ),
    "reserved": Kind(
        "the policy has reserved a later start for a job on these nodes",
        _bound,
        lambda data: f"a start{places_text(data['places'])}",
        data={"places": PLACES, "start_s": float},
    ),
    "unbound": Kind("a job loses the nodes that were being vacated or reserved for it", _bound),
    "migrating": Kind(
        "the policy moves a running job to other machines, at once or when these are up",
        _migrating,
        _migrating_words,
        data={"before": PLACES, "places": PLACES, "keeps_running": bool},
        more={"move": MOVE},
    ),
    "reconfigured": Kind(
        "a planner's round has moved these jobs: the machines that it gives back and rents for that, and what all the "
        "moves together are expected to save; `migrating` has each move's own part",
        _reconfigured,
        _reconfigured_words,
        data={
            "jobs": list[int],
            "ended": Annotated[int, "machines"],
            "rented": Annotated[int, "machines"],
            "move": MOVE,
        },
    ),
    "moved": Kind(
        "the run that followed a move is over: what the move was expected to save, and what it has saved",
        _move_over,
        _moved_words,
        data={"move": MOVE},
    ),
    "launched": Kind(
        "a run was handed to the executor",
        _launched,
        _launched_words,
        data={"number": int, "units": int, "places": PLACES},
        more={"preemption": PREEMPTION},
    ),
    "started": Kind(
        "the executor reports that a run's command runs",
        _started,
        _started_words,
        data={"number": int, "adopted": Annotated[bool, "found running after a start of the service"]},
        more={"started_at": float},
    ),
    "restarted": Kind(
        "a job that was stopped for another number of units runs again: how long that took",
        _restarted,
        lambda data: f"{data['took_s']:.3g} s after the request to stop",
        data={"took_s": float},
    ),
    "resized": Kind(
        "a running job has taken another number of units without a restart",
        _resized,
        _width_words,
        data={"number": int, "units": int, "places": PLACES},
    ),
    "suspended": Kind(
        "a user suspends a run, which keeps its units; what its job was promised is void",
        _suspended,
        reason_text,
        data={"number": int, "left_s": float | None, "reason": REASON},
    ),
    "resumed": Kind(
        "a suspended run goes on",
        _resumed,
        lambda data: f"run {data['number']} goes on",
        data={"number": int},
    ),
    "signalled": Kind(
        "a user sends a signal to a run: to the tasks of its steps, to its command alone, or to all of it",
        words=lambda data: f"run {data['number']} is sent {data['signal']}",
        data={"number": int, "signal": str, "to": str},
    ),
    "slept": Kind(
        "the machine of a run slept: that is no time for which it ran", _slept, data={"for_s": float}
    ),
    "stopping": Kind(
        "a run is asked to stop: preempted, resized or cancelled, or its node goes",
        _stopping,
        _stopping_words,
        data={"why": str, "stop_by_at": float | None, "reason": REASON},
        more={"account": ACCOUNT, "makes_room_for": Annotated[int, "a job"], "preemption": PREEMPTION},
    ),
    "preempts": Kind(
        "another job is preempted for this one; the cost stands in the other job's events",
        words=lambda data: f"job {data['victim']} makes room for it",
        data={"victim": Annotated[int, "a job"], "run": int},
    ),
    "trouble": Kind(
        "the executor met a problem with a run; the message says which, and what follows",
        words=lambda data: f"run {data['number']}: {data['message']}",
        data={"number": int, "message": str},
    ),
    "ended": Kind(
        "a run has ended, and none of its processes is left",
        _ended,
        _ended_words,
        data={"number": int, "outcome": str},
        more={
            "exit_code": int | None,
            "signal": int | None,
            "message": str | None,
            "started_at": float,
            "ended_at": float,
            "run_s": float,
            "preemption": PREEMPTION,
        },
    ),
    "work-lost": Kind(
        "a run that follows another reported its progress for the first time: the work lost since the last checkpoint",
        _goes_on,
        _lost_words,
        data={"number": int, "frac": float, "kept_s": float},
        more={"preemption": PREEMPTION},
    ),
}
