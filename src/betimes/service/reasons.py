"""Why a job waits, stopped or failed: a code for programs, a sentence for people, and the evidence."""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence
from typing import Any

from betimes.service.trial_set import TrialSet

CODES = {
    "compiling": "the policy in force is being compiled, and decides after that",
    "held": "a user keeps it from starting",
    "dependency": "it waits for another job to end",
    "dependency-failed": "the job that it was to follow did not succeed",
    "array-limit": "as many elements of its array are at work as may be at once",
    "retry-delay": "it failed, and is tried again after a while",
    "no-room": "there is not enough free for it",
    "turn": "others come first under the policy",
    "cut": "the policy gave it units, which could not be placed, or did not pay",
    "claimed": "what is free is kept for a job for which others make room",
    "withheld": "there is room for it, and the policy does not start it yet",
    "booting": "a machine that is rented for it alone is not up yet",
    "speculated": "it ran on a rented machine for as long as a short job may, and starts anew",
    "budget": "its user has no budget left for rented machines",
    "not-rented": "the cloud did not give out a machine for it",
    "nobody-waits": "no job is queued",
    "reserved": "the policy has promised it a start",
    "nominated": "others are making room for it",
    "leaving": "those who were told to leave its nodes have not left yet",
    "no-nodes": "there is no node that takes work",
    "preempted": "it was told to make room",
    "resized": "it is started again at another width",
    "set": "it is a trial, and others of its set have the units",
    "trials": "some of its trials did not finish well",
    "cancelled": "a user has ended it",
    "node-lost": "its node has vanished",
    "reclaimed": "the cloud has taken back its node",
    "lost": "its run was lost: the machine restarted, or nobody knows how it ended",
    "stopped": "its run was stopped, neither by a user nor by the policy",
    "exit-code": "its command ended with another code than 0",
    "signal": "its command was ended by a signal",
    "time-limit": "it reached its time limit",
    "out-of-memory": "it was killed for using more memory than its limit",
    "start-failed": "its command could not be started",
}
"""Every code, and what it means."""


def reason(code: str, text: str, **evidence: Any) -> dict[str, Any]:
    """A reason; the code is one of CODES."""
    return {"code": code, "text": text, "evidence": evidence}


def compiling(policy: str) -> dict[str, Any]:
    """There is no decision yet."""
    text = f"waits until policy {policy} is compiled, and is promised an end then"
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
    """A dependency that did not succeed."""
    return reason(
        "dependency-failed", f"job {number}, which it was to follow, is {ended}", job=number, status=ended
    )


def array(first: int, most: int) -> dict[str, Any]:
    """The array's own limit."""
    return reason(
        "array-limit", f"{most} elements of array {first} are at work, as many as may be", most=most
    )


def trials(of: TrialSet) -> dict[str, Any]:
    """Not all trials of a set finished."""
    ends = [
        f"{count} {how}" for count, how in ((of.failed, "failed"), (of.cancelled, "were cancelled")) if count
    ]
    return reason(
        "trials", f"of {of.count} trials {' and '.join(ends)}", failed=of.failed, cancelled=of.cancelled
    )


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
    """Told to stop."""
    text = {"resized": "stopped, to go on at another width", "cancelled": "cancelled, and stopping"}[why]
    return reason(why, text, by_at=by_at)


def preempted(by: Sequence[int], policy: str, grace_s: float, by_at: float) -> dict[str, Any]:
    """Told to make room for others."""
    for_whom = f"for {named(by)} " if by else ""
    text = f"makes room {for_whom}under {policy}, within {grace_s:g} s"
    return reason("preempted", text, jobs=[*by], policy=policy, grace_s=grace_s, by_at=by_at)


def node_lost(name: str) -> dict[str, Any]:
    """Its node vanished."""
    return reason("node-lost", f"node {name} has vanished; it goes on elsewhere", node=name)


def reclaimed(name: str) -> dict[str, Any]:
    """Its rented node was taken away."""
    return reason("reclaimed", f"the cloud has taken back node {name}; it goes on elsewhere", node=name)


def lost(message: str | None) -> dict[str, Any]:
    """Its run was lost with the machine."""
    return reason("lost", f"its run has vanished{f': {message}' if message else ''}; it is started again")


def not_again(why: dict[str, Any] | None) -> dict[str, Any]:
    """What would have it started again, had its submitter not said otherwise."""
    found = why or reason("stopped", "its run was stopped from outside")
    text = found["text"].removesuffix("; it goes on elsewhere").removesuffix("; it is started again")
    return {**found, "text": f"{text}; it is not started again, as it was submitted with requeue = false"}


def unknown_end(message: str | None, requeue: bool) -> dict[str, Any]:
    """Nobody knows how its run ended, and it is not to be run again."""
    text = f"its run was lost{f': {message}' if message else ''}; it may have done its work, and is not run again, as "
    return reason("lost", text + ("no retries are left" if requeue else "requeue is false"))


def lost_again(times: int, message: str | None) -> dict[str, Any]:
    """Its runs vanish time and again."""
    text = f"its run has vanished for the {times}th time in a row{f': {message}' if message else ''}"
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
        return "its run was lost, and it is not known how it ended"
    if signal is not None:
        known = {one.value: one.name for one in signals.Signals}
        return f"ended by {known.get(signal, f'signal {signal}')}"
    return f"exited with {code}"
