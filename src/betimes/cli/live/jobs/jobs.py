"""`betimes jobs`: waiting and running jobs, or any others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from betimes.cli.live.jobs.completing import ACTIVE, STATUSES, complete_job, complete_status
from betimes.cli.live.jobs.ids import Ids, fetch
from betimes.cli.render.tables import Column
from betimes.cli.verbs import Json, Option, Output, State
from betimes.errors import InputError
from betimes.printing import report
from betimes.service.spec.spelling import PARTITION

if TYPE_CHECKING:
    from betimes.client.calls import Conditions
    from betimes.service.views.models import JobView

EVERY_S = 2.0


def _status_style(text: str) -> str:
    return {
        "running": "green",
        "stopping": "yellow",
        "failed": "red",
        "finished": "dim",
        "cancelled": "dim",
    }.get(text.partition(" ")[0], "")


COLUMNS = (
    Column("Job", right=True),
    Column("Name", flexible=True),
    Column("User", rank=5),
    Column("Class", rank=6),
    Column("Status", style=_status_style),
    Column("Units", rank=3, right=True),
    Column("For", rank=4, right=True),
    Column("Done", rank=1),
    Column("Within", rank=7),
    Column("Why", rank=2, flexible=True),
)

Status = Annotated[
    list[str] | None,
    Option(
        "--status",
        metavar="A,B,...",
        help=f"Those in one of these: {', '.join(STATUSES)}.",
        autocompletion=complete_status,
        show_default=False,
    ),
]
User = Annotated[str | None, Option("--user", metavar="NAME", help="Those of this user.", show_default=False)]
Name = Annotated[str | None, Option("--name", metavar="NAME", help="Those of this name.", show_default=False)]
Label = Annotated[
    list[str] | None,
    Option("--label", metavar="K=V", help="Those with this label; repeatable: with all.", show_default=False),
]
Queue = Annotated[
    str | None, Option("--queue", metavar="NAME", help="Those in this queue.", show_default=False)
]
Array = Annotated[
    int | None,
    Option(
        "--array",
        metavar="ID",
        min=1,
        help="The elements of this array, by its first job.",
        autocompletion=complete_job,
        show_default=False,
    ),
]
Limit = Annotated[int, Option("--limit", metavar="N", min=1, help="The newest N at most.")]
All = Annotated[bool, Option("--all", help="Also those that are over; otherwise those that wait or run.")]
Watch = Annotated[bool, Option("--watch", help="Show them again and again, until Ctrl-C.")]
Every = Annotated[
    str, Option("--every", metavar="TIME", help="With --watch: how long until they are shown again.")
]


def jobs(
    status: Status = None,
    user: User = None,
    name: Name = None,
    queue: Queue = None,
    label: Label = None,
    array: Array = None,
    everything: All = False,
    limit: Limit = 100,
    watch: Watch = False,
    every: Every = f"{EVERY_S:g}s",
    output: Output = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """List jobs, newest first: what they hold, when they will be done, and why they wait."""
    from betimes.cli.duration_options import parse_option
    from betimes.cli.live.connection import connect, service_now
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import say, show

    labels = [*(label or ()), *([f"{PARTITION}={queue}"] if queue is not None else [])]
    wanted = job_filter(status, user, name, labels, array, everything)
    wanted["intervals"] = True
    if watch:
        if as_json:
            raise InputError("--watch: with --json there is one answer; leave one of them out")
        if output is not None:
            raise InputError("--output: what is shown again and again fits the terminal; leave out --watch")
        _watch(wanted, limit, parse_option("--every", every, 0.1, 86_400), state)
        return
    with connect(state) as service:
        found, is_all = fetch(service, wanted, limit)
        at_now, notes = service_now(service, _latest_at(found))
    for note in notes:
        report("betimes: note", note)
    if as_json:
        print_json(found)
    elif found:
        show(COLUMNS, rows(found, at_now), wide=output is not None)
    else:
        say(_none(wanted, status is None and not everything))
    if not is_all:
        report("betimes: note", f"the newest {limit} are listed; --limit N lists more")


def status(ids: Ids, state: State = None, as_json: Json = False) -> None:
    """Print the status of each of these jobs, a word on a line, in the order given: queued, running, finished, ...

    Meant for scripts; `betimes jobs` and `betimes job` say more.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.ids import resolve
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        found = {str(number): service.job(number).job.status for number in resolve(service, ids)}
    if as_json:
        print_json(found)
    else:
        print("\n".join(found.values()))


def job_filter(
    status: list[str] | None,
    user: str | None,
    name: str | None,
    label: list[str] | None,
    array: int | None,
    everything: bool,
) -> Conditions:
    """The conditions given by options: without a status, jobs that are not over, unless all are wanted.

    Raises InputError naming the option.
    """
    from betimes.cli.live.jobs.job_options import pairs

    texts = [each.strip() for word in status or () for each in word.split(",")]
    for text in texts:
        if text not in STATUSES:
            raise InputError(f"--status {text[:40]}: not known; give one of {', '.join(STATUSES)}")
    if texts and everything:
        raise InputError("--all: --status names some; leave one of them out")
    if not texts and not everything:
        texts = list(ACTIVE)
    wanted: Conditions = {
        "status": texts,
        "label": pairs(label or (), "--label"),
    }
    if user is not None:
        wanted["user"] = user
    if name is not None:
        wanted["name"] = name
    if array is not None:
        wanted["array_id"] = array
    return wanted


def _none(wanted: Conditions, only_active: bool) -> str:
    which = (
        "No such jobs" if {*wanted} - {"status", "label", "intervals"} or wanted.get("label") else "No jobs"
    )
    if only_active:
        return f"{which} are queued or running. `betimes jobs --all` shows finished ones."
    return f"{which} found."


def _watch(wanted: Conditions, limit: int, every_s: float, state: str | None) -> None:
    """Redraw the table periodically; if standard output is not a terminal, print it whenever it has changed."""
    from betimes.cli.live.connection import connect, service_now
    from betimes.cli.live.following import pause, until_interrupted
    from betimes.cli.live.watching import Screen
    from betimes.errors import NotReachable, Unavailable

    with until_interrupted(), connect(state) as service, Screen() as screen:
        found, is_all = fetch(service, wanted, limit)
        at_now, notes = service_now(service, _latest_at(found))
        trouble = ""
        while True:
            note = "" if is_all else f"the newest {limit} are listed"
            screen.draw(COLUMNS, rows(found, at_now), [each for each in (trouble, note, *notes) if each])
            pause(every_s)
            try:
                found, is_all = fetch(service, wanted, limit)
                at_now, notes = service_now(service, _latest_at(found))
                trouble = ""
            except (NotReachable, Unavailable) as error:
                trouble = f"no answer ({error}); as it was before"


def _latest_at(found: Sequence[JobView]) -> float | None:
    """The latest past instant in the jobs, by the service's clock."""
    passed = (at for job in found for at in (job.submitted_at, job.started_at, job.finished_at))
    return max((at for at in passed if at is not None), default=None)


def rows(found: Sequence[JobView], at_now: float) -> list[list[str]]:
    """The cells of `COLUMNS`, a row a job."""
    from betimes.cli.render.jobs import job_name
    from betimes.cli.render.times import both, sentence
    from betimes.service.spec.spelling import job_number
    from betimes.units import length

    users, classes = {job.user for job in found}, {job.qos for job in found}
    table = []
    for job in found:
        done = job.finished_at
        if done is None and job.estimate is not None:
            done = job.estimate.finish_median_at or job.estimate.finish_at
        table.append(
            [
                job_number(job.job_id),
                job_name(job),
                job.user if len(users) > 1 else "",
                job.qos if len(classes) > 1 else "",
                _status(job),
                _units(job),
                length(_age(job, at_now)),
                both(done, at_now),
                _within(job, at_now),
                sentence(job.reason.text, at_now) if job.reason is not None else "",
            ]
        )
    return table


def _within(job: JobView, at_now: float) -> str:
    """The interval as of now, or else the one promised at first: `13:50 to 14:40`, `by 18:00 (90 % sure)`."""
    from betimes.cli.render.jobs import expected_within, first_promised

    found = "" if job.estimate is None else expected_within(job.estimate, at_now, alone=True)
    return found or first_promised(job, at_now, alone=True)


def _status(job: JobView) -> str:
    if job.progress_frac is None or job.status not in ACTIVE:
        return str(job.status)
    return f"{job.status} {job.progress_frac:.0%}"


def _units(job: JobView) -> str:
    asked = str(job.max_units) if job.min_units == job.max_units else f"{job.min_units}-{job.max_units}"
    return f"{job.units} of {asked}" if job.units and str(job.units) != asked else asked


def _age(job: JobView, at_now: float) -> float | None:
    """Seconds that the job has waited, that its present run has run, or that its last one did."""
    if job.status not in ACTIVE or job.units:
        return job.ran_s
    from betimes.cli.render.times import since

    return since(job.submitted_at, at_now)
