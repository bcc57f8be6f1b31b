"""`betimes cancel`, `hold`, `release`, `requeue`, `suspend` and `resume`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from betimes.cli.live.jobs.completing import ACTIVE, complete_job
from betimes.cli.live.jobs.jobs import Array, Label, Name, Status, User, job_filter
from betimes.cli.verbs import Argument, Json, Option, State
from betimes.errors import BetimesError, InputError
from betimes.printing import printable, report

if TYPE_CHECKING:
    from betimes.client.calls import Conditions
    from betimes.client.plain import PlainClient
    from betimes.service.views.models import JobView

MOST_A_REQUEST = 10_000
MOST_LINES = 20  # with one job each; longer lists are summed up

Ids = Annotated[
    list[str] | None,
    Argument(
        metavar="ID...",
        help="Numbers of jobs, ranges of them as in 41-45, or, but for cancel, names. Of several, those that are "
        "already over, or where it is not possible, are skipped.",
        autocompletion=complete_job,
        show_default=False,
    ),
]
All = Annotated[bool, Option("--all", help="All jobs where it is possible.")]
Signal = Annotated[
    str | None,
    Option(
        "--signal",
        metavar="NAME",
        help="Send this signal to jobs that run, such as USR1, and leave them to it: one that saves its work and exits "
        "with 0 has finished.",
        show_default=False,
    ),
]
To = Annotated[
    Literal["steps", "command", "all"],
    Option(
        "--to",
        help="Which processes get the signal: the tasks that srun has started, or without any those that handle it "
        "(steps); the first process alone, of a batch script its shell (command); or all.",
    ),
]
Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask, on a terminal, whether they are meant.")]


class _Verb(NamedTuple):
    """A verb that changes jobs: its words in messages, and the jobs that it applies to."""

    name: str
    done: str  # cancelled
    statuses: tuple[str, ...]
    those: str  # that wait or run
    left_out: str  # why some were


_CANCEL = _Verb("cancel", "cancelled", ACTIVE, "that wait or run", "they are already over")
_SIGNAL = _Verb("signal", "sent a signal", ("running", "stopping"), "that run", "they do not run")
_HOLD = _Verb("hold", "held", ("blocked", "queued"), "that wait", "they run, or are already over")
_REQUEUE = _Verb(
    "requeue", "requeued", ("running",), "that run", "they do not run, or may not be started again"
)
_SUSPEND = _Verb(
    "suspend", "suspended", ("running",), "that run", "they do not run, or are suspended, or cannot be"
)
_RESUME = _Verb("resume", "resumed", ("running",), "that are suspended", "they are not suspended")
_RELEASE = _Verb("release", "released", ("held",), "that are held", "they are not held")


def cancel(
    ids: Ids = None,
    name: Name = None,
    user: User = None,
    label: Label = None,
    status: Status = None,
    array: Array = None,
    everything: All = False,
    signal: Signal = None,
    to: To = "steps",
    yes: Yes = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Cancel jobs: those that wait at once, those that run after their grace period at the latest."""
    if signal is None and to != "steps":
        raise InputError(f"--to {to}: goes with --signal; leave it out, or give one")
    verb = _CANCEL if signal is None else _SIGNAL
    chosen = _chosen(verb, ids, status, user, name, label, array, everything)
    more = {} if signal is None else {"signal": signal, "to": to}
    _act(verb, ids, chosen, state, as_json, ask_first=not yes, **more)


def hold(
    ids: Ids = None,
    name: Name = None,
    user: User = None,
    label: Label = None,
    status: Status = None,
    array: Array = None,
    everything: All = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Keep waiting jobs from starting, until they are released."""
    _act(_HOLD, ids, _chosen(_HOLD, ids, status, user, name, label, array, everything), state, as_json)


def release(
    ids: Ids = None,
    name: Name = None,
    user: User = None,
    label: Label = None,
    status: Status = None,
    array: Array = None,
    everything: All = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Let jobs that were held start again."""
    _act(_RELEASE, ids, _chosen(_RELEASE, ids, status, user, name, label, array, everything), state, as_json)


def requeue(
    ids: Ids = None,
    name: Name = None,
    user: User = None,
    label: Label = None,
    status: Status = None,
    array: Array = None,
    everything: All = False,
    yes: Yes = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Stop jobs that run, and start them again when their turn comes, from their checkpoints if they have any."""
    chosen = _chosen(_REQUEUE, ids, status, user, name, label, array, everything)
    _act(_REQUEUE, ids, chosen, state, as_json, ask_first=not yes)


def suspend(
    ids: Ids = None,
    name: Name = None,
    user: User = None,
    label: Label = None,
    status: Status = None,
    array: Array = None,
    everything: All = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Let jobs that run stand still: their processes are stopped (SIGSTOP), and their time limit waits.

    They stay running and keep their units, memory and GPUs, while Slurm gives the cores to others; `betimes requeue`
    frees them. What was promised is void, and other jobs are promised ends as if they stood still for a day. Only
    jobs on the service's own machine, of a fixed number of units, can be suspended.
    """
    _act(_SUSPEND, ids, _chosen(_SUSPEND, ids, status, user, name, label, array, everything), state, as_json)


def resume(
    ids: Ids = None,
    name: Name = None,
    user: User = None,
    label: Label = None,
    status: Status = None,
    array: Array = None,
    everything: All = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Let suspended jobs go on. They are promised an end anew."""
    _act(_RESUME, ids, _chosen(_RESUME, ids, status, user, name, label, array, everything), state, as_json)


def _chosen(
    verb: _Verb,
    ids: list[str] | None,
    status: list[str] | None,
    user: str | None,
    name: str | None,
    label: list[str] | None,
    array: int | None,
    everything: bool,
) -> Conditions | None:
    """The conditions given by options; None: job numbers are given. Raises InputError."""
    given = {
        "--name": name,
        "--user": user,
        "--label": label,
        "--status": status,
        "--array": array,
        "--all": everything or None,
    }
    options_given = [option for option, value in given.items() if value is not None]
    if ids and options_given:
        raise InputError(f"{options_given[0]}: numbers of jobs are given as well; leave one of them out")
    if not ids and not options_given:
        raise InputError(
            f"{verb.name}: no job is named; give their numbers, choose them (--name, --user, --label, --status, "
            "--array), or --all"
        )
    if ids:
        return None
    wanted = job_filter(status, user, name, label, array, everything=False)
    statuses = [str(each) for each in wanted.get("status", ())]
    wrong = next((each for each in statuses if each not in verb.statuses), None)
    if status is not None and wrong is not None:
        raise InputError(
            f"--status {wrong}: such jobs cannot be {verb.done}; give one of {', '.join(verb.statuses)}"
        )
    return wanted if status is not None else job_filter(list(verb.statuses), user, name, label, array, False)


def _act(
    verb: _Verb,
    ids: list[str] | None,
    chosen: Conditions | None,
    state: str | None,
    as_json: bool,
    ask_first: bool = False,
    **more: str,
) -> None:
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.ids import every_job, parse_ids, resolve
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say

    # What is ended cannot be undone, so that jobs of a name are ended by --name alone.
    by_number = ids is not None and verb in (_CANCEL, _SIGNAL)
    wanted, why = parse_ids(ids) if ids and by_number else [], verb.left_out
    with connect(state) as service:
        if ids and not by_number:
            wanted = resolve(service, ids)
        if chosen is not None:
            found = every_job(service, chosen)
            wanted = sorted(job.job_id for job in found)
            why += ", or are another user's" if len({job.user for job in found}) > 1 else ""
            if wanted and ask_first and sys.stdin.isatty():
                _confirm(verb, wanted, chosen)
        if chosen is not None and not wanted and {"name", "array_id"} & chosen.keys():
            raise BetimesError(
                f"{verb.name}: there are no jobs {_conditions(chosen)} {verb.those}; nothing was {verb.done}; "
                "`betimes jobs --all` lists all"
            )
        changed = _changed(service, verb, wanted, **more)
    left_out = len(wanted) - len(changed)
    if wanted and not changed:
        raise InputError(f"{verb.name}: none of these {len(wanted):,} jobs can be {verb.done}: {why}")
    note = f"skipped {left_out:,} of {len(wanted):,} jobs: {why}"
    if as_json:
        print_json(changed)
        if left_out:
            report("betimes: note", note)
        return
    if chosen is not None and not wanted:
        say(f"No such jobs found. Only jobs {verb.those} can be {verb.done}.")
    say(*_lines(changed), *([f"{note[0].upper()}{note[1:]}."] if left_out else []))


def _changed(service: PlainClient, verb: _Verb, wanted: Sequence[int], **more: str) -> list[JobView]:
    """The jobs after the change: a single job is changed or refused; of several, those that allow it are changed."""
    ask = partial(getattr(service, verb.name), **more)
    if len(wanted) == 1:
        return ask(wanted)
    parts = [wanted[at : at + MOST_A_REQUEST] for at in range(0, len(wanted), MOST_A_REQUEST)]
    return [job for part in parts for job in ask(part, where_possible=True)]


def _confirm(verb: _Verb, wanted: Sequence[int], chosen: Conditions) -> None:
    """Ask for confirmation; raises BetimesError if refused."""
    several = f"{len(wanted):,} jobs ({wanted[0]} to {wanted[-1]})" if len(wanted) > 1 else f"job {wanted[0]}"
    conditions = _conditions(chosen)
    text = f"{verb.name.capitalize()} {several} {verb.those}{', ' if conditions else ''}{conditions}?"
    print(f"{printable(text)} [y/N]: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BetimesError(f"nothing was {verb.done}")


def _conditions(chosen: Conditions) -> str:
    """The conditions in words: `of user ada, of name train`."""
    named = [
        ("user", chosen.get("user")),
        ("name", chosen.get("name")),
        ("array", chosen.get("array_id")),
        *(("label", f"{name}={value}") for name, value in chosen.get("label", {}).items()),
    ]
    return ", ".join(f"of {what} {value}" for what, value in named if value is not None)


def _lines(changed: Sequence[JobView]) -> list[str]:
    """The new status of the jobs: a line each, or a line per status if there are many."""
    from betimes.cli.render.jobs import job_name

    if len(changed) <= MOST_LINES:
        return [f"Job {job.job_id}, {job_name(job)}: {_status(job)}" for job in changed]
    counts = Counter(_status(job) for job in changed)
    return [f"{count:,} job{'' if count == 1 else 's'}: {status}" for status, count in counts.items()]


def _status(job: JobView) -> str:
    is_suspended = job.reason is not None and job.reason.code == "suspended"
    return f"{job.status}, suspended" if is_suspended else str(job.status)
