"""The kinds of events about the service and the policy in force: set, selected, tuned, idle, set aside."""

from __future__ import annotations

from typing import Annotated, Any

from betimes.service.machines.budgets import DAY_S
from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.kind import ACCOUNTS, REASON, Data, Kind, reason_text
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.policy_record import PolicyRecord
from betimes.service.scheduling.promise_events import void_promise
from betimes.units import length

NEWS_FRAC = 0.05  # of the time until a promised end: a jump of the clock by more makes the promise void
MOST_SET_ASIDE = 50  # that the ledger knows; the log has all


def _opened(ledger: Ledger, event: Event, _: Job | None) -> None:
    ledger.epoch_at = event.data["epoch_at"]


def _clock_set(ledger: Ledger, event: Event, _: Job | None) -> None:
    """The service's clock goes on from `at_s` plus what it is put forward by."""
    by_s = event.data["stepped_s"]
    for job in ledger.jobs.values():
        if job.delays_retry(event.at_s):
            job.not_before_at += by_s
        if job.promised_finish_at is not None and by_s > NEWS_FRAC * (job.promised_finish_at - event.at_s):
            void_promise(ledger, job)


def _clock_corrected(ledger: Ledger, event: Event, _: Job | None) -> None:
    """Live jobs and nodes are shown as if the clock had been right all the time."""
    by_s = event.data["by_s"]
    for job in ledger.jobs.values():
        job.correct_clock(by_s)
    for node in ledger.nodes.values():
        if node.since_at is not None:
            node.since_at += by_s
    ledger.policy_since_at += by_s


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


def _selected(ledger: Ledger, event: Event, _: Job | None) -> None:
    if not event.data["shadow"]:
        ledger.member = event.data["member"]
    for job_id, until_s in event.data.get("waits_until_s", ()):
        if (account := ledger.jobs[job_id].account) is not None:
            account.waits_until_s = until_s


def _policy_words(data: Data) -> str:
    front = data.get("front")
    if front is None:
        return data["policy"]
    names = "".join(f", {name}" for name in front["names"])
    return f"{data['policy']} (point {front['point']}{names} of the front of event {front['event']})"


def _selected_words(data: Data) -> str:
    reported = ", reported only" if data["shadow"] else ""
    waiting = data["waiting"]
    jobs = "1 waiting job, which leaves no order to choose" if waiting == 1 else f"{waiting} waiting jobs"
    return f"{data['member']}, the best of {len(data['scores'])} for {jobs}{reported}"


def _problem_words(data: Data) -> str:
    return data["problem"]


def _clock_words(data: Data) -> str:
    back = data["wall_s"] < 0
    return f"the machine's clock went {'back' if back else 'forward'} {length(abs(data['wall_s']))}"


def _set_aside_words(data: Data) -> str:
    return f"{data['what']} could not be carried out: {data['error']}; --json shows the traceback"


KINDS: dict[str, Kind[Ledger]] = {
    "opened": Kind(
        "the first start ever; engines count seconds from here",
        _opened,
        lambda _: "for the first time",
        data={"epoch_at": float},
    ),
    "recovered": Kind("the service has started again and read its state from this log"),
    "policy-set": Kind(
        "another policy decides from now on",
        _policy_set,
        _policy_words,
        data={"policy": str, "accounts": ACCOUNTS},
        more={
            "front": Annotated[
                dict[str, Any],
                "the point of a front that it is: `point`, `names`, and the `event` of the front",
            ]
        },
    ),
    "selected": Kind(
        "the portfolio has chosen the member that decides from now on; the scores of those simulated",
        _selected,
        _selected_words,
        data={
            "member": str,
            "before": str | None,
            "shadow": Annotated[bool, "reported only"],
            "waiting": Annotated[int, "jobs"],
            "jobs": Annotated[list[tuple[int, float]], "some that wait, and since when"],
            "score": float,
            "slowdown": float,
            "machine_s": float,
            "smallest_wins": bool,
            "took_s": float,
            "scores": Annotated[dict[str, float | None], "by member"],
            "from_at": Annotated[float, "the instant of the state that was simulated"],
        },
        more={
            "waits_until_s": Annotated[
                list[tuple[int, float | None]], "jobs, and how long each waits for an owned machine"
            ]
        },
    ),
    "not-selected": Kind(
        "a selection failed, or came too late; the member in force goes on deciding",
        words=_problem_words,
        data={"problem": str, "from_at": float},
    ),
    "not-planned": Kind(
        "a planner failed, or answered too late; what it decided before holds",
        words=_problem_words,
        data={"planner": str, "problem": str, "from_at": float},
    ),
    "instruction-refused": Kind(
        "an instruction of a planner is out of date: its job or machine is gone, or has no room",
        words=_problem_words,
        data={"planner": str, "instruction": str, "problem": str, "from_at": float},
    ),
    "tuning": Kind(
        "a search for a Pareto front on the recent workload has begun, and why",
        data={"reason": REASON, "objectives": list[str], "jobs": int},
    ),
    "tuning-stopped": Kind("a user ends a search with the front so far"),
    "tuned": Kind(
        "a search has ended with a front: how large it is, and what is proposed",
        data={"points": int, "evaluations": int, "ended": str, "hypervolume": float},
        more={
            "proposed": Annotated[int, "the number of a point"],
            "names": list[str],
            "not_applied": Annotated[str | None, "why not"],
        },
    ),
    "not-tuned": Kind("a search has ended without a front, and why", data={"problem": str}),
    "idle": Kind(
        "a decision started and stopped no job, for another reason than the last decision of that kind",
        _idle,
        reason_text,
        data={"reason": REASON},
    ),
    "clock-set": Kind(
        "the machine's clock was set, or the machine was suspended: how far its clock jumped, and how far the "
        "service's went with it. Delays of retries go on; promises that this changes by much are void",
        _clock_set,
        _clock_words,
        data={"wall_s": float, "stepped_s": float},
    ),
    "clock-corrected": Kind(
        "the machine's clock was put forward while it was awake, so that it was wrong before: the beginnings of jobs "
        "that are not over, and of their present runs, are from now on those of the corrected clock. What is over, and "
        "this log, keep the instants of the clock of then",
        _clock_corrected,
        lambda data: f"beginnings of what goes on are now {length(data['by_s'])} later",
        data={"by_s": float},
    ),
    "set-aside": Kind(
        "an input, or a step of a turn, could not be carried out, with the traceback: the service goes on without it, "
        "and tries it again after the next start. A job whose run's end is set aside has failed, and frees its nodes",
        _set_aside,
        _set_aside_words,
        data={"what": str, "error": str, "traceback": str},
    ),
}
