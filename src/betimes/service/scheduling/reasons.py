"""Why a job waits, stopped or failed: a code for programs, a sentence for people, and the evidence.

Here stand the codes, and the reasons of jobs as such; those of a capability stand beside its events. Instants in
sentences are in UTC (`units.instant`); the command line converts them to the reader's clock.
"""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence
from typing import Any

from betimes.service.spec.spelling import job_number

CODES = {
    "compiling": "the policy in force is still being compiled",
    "held": "a user holds it",
    "begin": "it is to begin later",
    "dependency": "a job that it depends on has not ended",
    "dependency-failed": "a job that it depends on did not succeed",
    "array-limit": "the array's limit of running elements is reached",
    "resource": "other jobs have what the service counts of a resource that it needs",
    "retry-delay": "it failed, and its retry is not due yet",
    "maintenance": "it would run into a maintenance of its nodes, or that goes on; or was stopped for one",
    "user-limit": "the running jobs of its user hold as much as they may",
    "no-room": "too few resources are free",
    "turn": "other jobs come first under the policy",
    "cut": "the policy gave it units that it did not receive; the sentence says why",
    "claimed": "the free resources are kept for a job that others are preempted for",
    "withheld": "enough is free, and the policy does not start it yet",
    "booting": "a machine that is rented for it alone is not up yet",
    "speculated": "it ran on a rented machine for as long as a short job may, and starts anew",
    "lease": "it would not be over before the lease of a rented machine ends",
    "budget": "its user has no budget left for rented machines",
    "lease-ended": "its rented machine was given back: by a limit for the fleet, or by hand",
    "not-rented": "the cloud did not give out a machine for it",
    "queue-empty": "no job is queued",
    "reserved": "the policy has reserved a later start for it",
    "profiled": "it runs alone on its machines until its throughput there is known",
    "nominated": "other jobs are being preempted for it",
    "leaving": "its nodes are chosen, and runs that are stopping still occupy them",
    "no-nodes": "no node is up",
    "no-label": "no node that is up has the labels that it requires",
    "no-family": "no node that is up is of a family of machines on which it can run",
    "preempted": "it was preempted for other jobs",
    "resized": "it restarts on another number of units",
    "suspended": "a user has suspended its run, which keeps its units",
    "requeued": "a user requeued it: it starts again when its turn comes",
    "set": "it is a trial, and other trials hold the units of its set",
    "trials": "some of its trials failed or were cancelled",
    "cancelled": "a user cancelled it",
    "prolog-failed": "the prolog of its node failed",
    "node-lost": "its node was lost",
    "reclaimed": "the cloud reclaimed its node",
    "lost": "its run was lost: the machine restarted, or the exit of the run is unknown",
    "stopped": "its run was stopped from outside, by neither a user nor the policy",
    "exit-code": "its command exited with a code other than 0",
    "signal": "its command was ended by a signal",
    "observed": "as Slurm has it, which this service watches; the sentence says what was seen",
    "time-limit": "it reached its time limit",
    "out-of-memory": "it was killed for using more memory than its limit",
    "start-failed": "its command could not be started",
}
"""Every code, and what it means."""

REQUEUED = "; it is requeued"
"""The end of the sentence about a run that is cut short, unless the job is not to be requeued (`not_again`)."""


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


def stopping(why: str, by_at: float | None) -> dict[str, Any]:
    """Its run is stopping."""
    text = {
        "resized": "stopped, to restart on another number of units",
        "cancelled": "cancelled, and stopping",
        "requeued": "requeued by a user, and stopping",
    }[why]
    return reason(why, text, by_at=by_at)


def requeued() -> dict[str, Any]:
    """Stopped by a user, to start again."""
    return reason("requeued", "requeued by a user")


def preempted(
    by: Sequence[int], policy: str, grace_s: float, by_at: float, *, moves: bool = False
) -> dict[str, Any]:
    """Preempted for other jobs; moves: as its machine is given back."""
    for_whom = f"for {named(by)} " if by else ""
    text = f"makes room {for_whom}under {policy}, within {grace_s:g} s"
    if moves:
        text = f"leaves a machine that {policy} gives back, within {grace_s:g} s"
    return reason("preempted", text, jobs=[*by], policy=policy, grace_s=grace_s, by_at=by_at)


def lost(message: str | None) -> dict[str, Any]:
    """Its run was lost, and is to be repeated."""
    return reason("lost", f"its run was lost{f': {message}' if message else ''}{REQUEUED}")


def not_begun(message: str | None) -> dict[str, Any]:
    """Its command was not started, and is to be later."""
    return reason("prolog-failed", f"{message or 'the prolog failed'}{REQUEUED}")


def not_begun_again(times: int, message: str | None) -> dict[str, Any]:
    """The prologs of its nodes fail time and again."""
    return reason(
        "prolog-failed", f"it was not started {times} times in a row: {message or 'the prolog failed'}"
    )


def not_again(why: dict[str, Any] | None) -> dict[str, Any]:
    """A loss after which the job would be requeued, had it not been submitted with requeue = false."""
    found = why or reason("stopped", "its run was stopped from outside")
    text = found["text"].removesuffix(REQUEUED)
    return {**found, "text": f"{text}; it is not requeued, as it was submitted with requeue = false"}


def unknown_end(message: str | None, requeue: bool) -> dict[str, Any]:
    """The exit of its run is unknown, and it is not to be run again."""
    text = f"its run was lost{f': {message}' if message else ''}; its work may be done, and it is not run again, as "
    return reason("lost", text + ("no retries are left" if requeue else "requeue is false"))


def end_not_handled(error: str) -> dict[str, Any]:
    """The report of its run's end could not be handled."""
    text = f"the service could not handle the end of its run ({error}); its work may be done: "
    return reason(
        "lost", text + "`betimes events --kind set-aside --json` shows why, `betimes logs` what it printed"
    )


def lost_again(times: int, message: str | None) -> dict[str, Any]:
    """Its runs are lost time and again."""
    text = f"its run was lost {times} times in a row{f': {message}' if message else ''}"
    return reason("lost", text, times=times)


def failed(why: str, code: int | None, signal: int | None, message: str | None) -> dict[str, Any]:
    """Why it failed."""
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
        return f"job {job_number(numbers[0])}"
    return "jobs " + ", ".join(map(job_number, numbers[:5])) + (" and others" if len(numbers) > 5 else "")


def _how(code: int | None, signal: int | None) -> str:
    if code is None and signal is None:
        return "its run was lost, and its exit is unknown"
    if signal is not None:
        known = {one.value: one.name for one in signals.Signals}
        return f"ended by {known.get(signal, f'signal {signal}')}"
    return f"exited with {code}"
