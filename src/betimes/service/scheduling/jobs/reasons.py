"""Why a job waits, stopped or failed: a code for programs, a sentence for people, and the evidence.

An instant in a sentence is in UTC (`views.instants`). Text of the reader's clock is made where it is shown.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence
from typing import Any

from betimes.service.scheduling.jobs.job_states import Status
from betimes.service.scheduling.trials.trial_set import TrialSet

CODES = {
    "compiling": "the policy in force is still being compiled",
    "held": "a user holds it",
    "dependency": "a job that it depends on has not ended",
    "dependency-failed": "a job that it depends on did not succeed",
    "array-limit": "the array's limit of running elements is reached",
    "retry-delay": "it failed, and its retry is not due yet",
    "no-room": "too few resources are free",
    "turn": "other jobs come first under the policy",
    "cut": "the policy gave it units that it did not receive; the sentence says why",
    "claimed": "the free resources are kept for a job that others are preempted for",
    "withheld": "enough is free, and the policy does not start it yet",
    "booting": "a machine that is rented for it alone is not up yet",
    "speculated": "it ran on a rented machine for as long as a short job may, and starts anew",
    "budget": "its user has no budget left for rented machines",
    "not-rented": "the cloud did not give out a machine for it",
    "queue-empty": "no job is queued",
    "reserved": "the policy has reserved a later start for it",
    "nominated": "other jobs are being preempted for it",
    "leaving": "its nodes are chosen, and runs that are stopping still occupy them",
    "no-nodes": "no node is up",
    "no-label": "no node that is up has the labels that it requires",
    "no-family": "no node that is up is of a family of machines on which it can run",
    "preempted": "it was preempted for other jobs",
    "resized": "it restarts on another number of units",
    "set": "it is a trial, and other trials hold the units of its set",
    "trials": "some of its trials failed or were cancelled",
    "cancelled": "a user cancelled it",
    "node-lost": "its node was lost",
    "reclaimed": "the cloud reclaimed its node",
    "lost": "its run was lost: the machine restarted, or the exit of the run is unknown",
    "stopped": "its run was stopped from outside, by neither a user nor the policy",
    "exit-code": "its command exited with a code other than 0",
    "signal": "its command was ended by a signal",
    "time-limit": "it reached its time limit",
    "out-of-memory": "it was killed for using more memory than its limit",
    "start-failed": "its command could not be started",
}
"""Every code, and what it means."""

_REQUEUED = "; it is requeued"


def reason(code: str, text: str, **evidence: Any) -> dict[str, Any]:
    """A reason; the code is one of CODES."""
    return {"code": code, "text": text, "evidence": evidence}


def compiling(policy: str) -> dict[str, Any]:
    """There is no decision yet."""
    text = f"waits until policy {policy} is compiled; its completion time is promised then"
    return reason("compiling", text, policy=policy)


def by_user(user: str) -> dict[str, Any]:
    """Held."""
    return reason("held", f"held by {user}; `betimes release` lets it start", user=user)


def cancelled(user: str | None) -> dict[str, Any]:
    """Ended by a user."""
    return reason("cancelled", f"cancelled by {user}" if user else "cancelled", user=user)


def after(number: int) -> dict[str, Any]:
    """A dependency that is not over."""
    return reason("dependency", f"waits for job {number} to end", job=number)


def in_vain(number: int, ended: str) -> dict[str, Any]:
    """A dependency that did not succeed: `ended` is failed or cancelled."""
    has = "was cancelled" if ended == Status.CANCELLED else "has failed"
    return reason("dependency-failed", f"depends on job {number}, which {has}", job=number, status=ended)


def array(first: int, most: int) -> dict[str, Any]:
    """The array's own limit."""
    elements = f"{most} running element{'' if most == 1 else 's'}"
    return reason("array-limit", f"the limit of {elements} of array {first} is reached", most=most)


def trials(of: TrialSet) -> dict[str, Any]:
    """Not all trials of a set finished."""
    ends = [f"{count} {how}" for count, how in ((of.failed, "failed"), (of.cancelled, "cancelled")) if count]
    text = f"of {of.count} trials: {', '.join(ends)}"
    return reason("trials", text, failed=of.failed, cancelled=of.cancelled)


def retry(
    number: int, most: int, code: int | None, signal: int | None, delay_s: float, how: str | None = None
) -> dict[str, Any]:
    """Failed, with attempts left; `how`, where code and signal do not tell."""
    return reason(
        "retry-delay",
        f"{how or _how(code, signal)}; retry {number} of {most} in {delay_s:g} s",
        exit_code=code,
        signal=signal,
        delay_s=delay_s,
    )


def booting(type: str, count: int) -> dict[str, Any]:  # noqa: A002
    """Machines of its own are on their way."""
    what = f"a machine of type {type}" if count == 1 else f"{count} machines of type {type}"
    return reason("booting", f"{what} is rented for it alone, and boots", type=type, count=count)


def speculated() -> dict[str, Any]:
    """It is no short job."""
    text = "it ran on a rented machine for as long as a short job may; it starts anew, and waits if it must"
    return reason("speculated", text)


def over_budget(user: str, budget_usd: float, spent_usd: float, usd: float, month: str) -> dict[str, Any]:
    """Its user's budget does not allow for it."""
    text = (
        f"{user} has spent ${spent_usd:,.2f} of ${budget_usd:,.2f} on rented machines in {month}, and this would cost "
        f"about ${usd:,.2f}"
    )
    return reason("budget", text, user=user, budget_usd=budget_usd, spent_usd=spent_usd, usd=usd, month=month)


def not_rented(type: str, text: str, again_s: float) -> dict[str, Any]:  # noqa: A002
    """No machine for it."""
    when = f"; asked again in {again_s:g} s" if again_s else ""
    return reason("not-rented", f"no machine of type {type} is rented for it: {text}{when}", type=type)


def told(why: str, by_at: float | None) -> dict[str, Any]:
    """Its run is asked to stop."""
    text = {
        "resized": "stopped, to restart on another number of units",
        "cancelled": "cancelled, and stopping",
    }[why]
    return reason(why, text, by_at=by_at)


def preempted(by: Sequence[int], policy: str, grace_s: float, by_at: float) -> dict[str, Any]:
    """Preempted for other jobs."""
    for_whom = f"for {named(by)} " if by else ""
    text = f"makes room {for_whom}under {policy}, within {grace_s:g} s"
    return reason("preempted", text, jobs=[*by], policy=policy, grace_s=grace_s, by_at=by_at)


def node_lost(name: str) -> dict[str, Any]:
    """Its node was lost."""
    return reason("node-lost", f"node {name} was lost{_REQUEUED}", node=name)


def reclaimed(name: str) -> dict[str, Any]:
    """The cloud reclaimed its rented node."""
    return reason("reclaimed", f"the cloud reclaimed node {name}{_REQUEUED}", node=name)


def lost(message: str | None) -> dict[str, Any]:
    """Its run was lost, and is to be repeated."""
    return reason("lost", f"its run was lost{f': {message}' if message else ''}{_REQUEUED}")


def not_again(why: dict[str, Any] | None) -> dict[str, Any]:
    """A loss after which the job would be requeued, had it not been submitted with requeue = false."""
    found = why or reason("stopped", "its run was stopped from outside")
    text = found["text"].removesuffix(_REQUEUED)
    return {**found, "text": f"{text}; it is not requeued, as it was submitted with requeue = false"}


def unknown_end(message: str | None, requeue: bool) -> dict[str, Any]:
    """The exit of its run is unknown, and it is not to be run again."""
    text = f"its run was lost{f': {message}' if message else ''}; its work may be done, and it is not run again, as "
    return reason("lost", text + ("no retries are left" if requeue else "requeue is false"))


def lost_again(times: int, message: str | None) -> dict[str, Any]:
    """Its runs are lost time and again."""
    text = f"its run was lost {times} times in a row{f': {message}' if message else ''}"
    return reason("lost", text, times=times)


def failed(why: str, code: int | None, signal: int | None, message: str | None) -> dict[str, Any]:
    """What made it fail."""
    if why == "start-failed":
        return reason("start-failed", message or "its command could not be started")
    if why == "time-limit":
        return reason("time-limit", message or "it reached its time limit", exit_code=code, signal=signal)
    if why == "out-of-memory":
        return reason(why, message or "it used more memory than its limit", exit_code=code, signal=signal)
    kind = "signal" if signal is not None else "exit-code"
    return reason(kind, _how(code, signal), exit_code=code, signal=signal)


def named(numbers: Sequence[int]) -> str:
    """A few jobs by their numbers."""
    if len(numbers) == 1:
        return f"job {numbers[0]}"
    return "jobs " + ", ".join(map(str, numbers[:5])) + (" and others" if len(numbers) > 5 else "")


def _how(code: int | None, signal: int | None) -> str:
    if code is None and signal is None:
        return "its run was lost, and its exit is unknown"
    if signal is not None:
        known = {one.value: one.name for one in signals.Signals}
        return f"ended by {known.get(signal, f'signal {signal}')}"
    return f"exited with {code}"
