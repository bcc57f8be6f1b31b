"""`betimes demo`: a new service, three real jobs or a trace, and their promises next to the outcomes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from betimes.cli.live.following import Left
from betimes.cli.live.jobs.completing import complete_policy
from betimes.cli.render.tables import Column, say, show, show_pairs
from betimes.cli.verbs import Json
from betimes.errors import BetimesError, InputError, NotReachable

if TYPE_CHECKING:
    from betimes.client import Client
    from betimes.service.views.models import EventView, JobView

_LOG = "service.log"
_STOP_S = 30.0  # until the service must have stopped
_LOOK_S = 0.1  # between two checks whether the policy is compiled
_SLOW_S = 4.0  # a start that takes longer compiles, or meets a busy machine

_COUNT = 'for i in 1 2 3 4 5; do echo "line $i"; sleep 1; done'
_TRAIN = '''\
"""A stand-in for a training loop: it reports its progress to Betimes, and does nothing else."""

import time

import betimes

loss = 1.0
for step in betimes.progress(range(40)):
    time.sleep(0.25)
    loss *= 0.95
print(f"40 steps, loss {loss:.3f}")
'''
_REPORT = 'echo "all is done: $(date)"; sleep 3'

_COLUMNS = (Column("Job", right=True), Column("Name"), Column("Promised"), Column("Actual"), Column("Off"))
_ENDS = ("finished", "failed", "cancelled")
_SHOWN = (*_ENDS, "quoted", "started", "estimate-changed", "stopping", "resized", "retries", "held")
_SHOWN_OF_ALL = ("policy-set", "node-status")


def demo(
    once: Annotated[bool, typer.Option("--once", help="Stop after the summary, and leave nothing.")] = False,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Replay this trace instead of running real jobs; a generator or sample will do.",
            show_default=False,
        ),
    ] = None,
    units: Annotated[
        int | None,
        typer.Option("--units", metavar="N", help="The pool of the replay.", min=1, show_default=False),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", metavar="N", help="Keep the first N jobs of the trace.", min=1, show_default=False
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            metavar="NAME[:k=v,...]",
            help="Who starts when; by default fifo.",
            autocompletion=complete_policy,
            show_default=False,
        ),
    ] = None,
    speed: Annotated[
        str,
        typer.Option("--speed", metavar="X", help="Seconds of the trace a second; max: as fast as it goes."),
    ] = "3600",
    promises: Annotated[
        int | None,
        typer.Option(
            "--promises",
            metavar="N",
            help="Promise an end to N jobs of the trace, evenly spread; by default to all. Each takes a play-out.",
            min=0,
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what Betimes does: start a service with a fresh state, give it three small jobs, and follow them.

    At the end what was promised stands beside what happened, and the service runs on until Ctrl-C. With --json the
    jobs are printed when they are over, and the service is stopped.
    """
    import tempfile

    from betimes.client import Client

    if trace is None and any(number is not None for number in (units, jobs, promises)):
        raise InputError("--units, --jobs and --promises are for a replay; give --trace FILE as well")
    state = Path(tempfile.mkdtemp(prefix="betimes-demo-"))
    once = once or as_json
    words = ["--usual", "10s"] if trace is None else ["--replay", trace, "--speed", speed]
    for option, value in (
        ("--policy", policy),
        ("--units", units),
        ("--jobs", jobs),
        ("--promises", promises),
    ):
        words += [] if value is None else [option, str(value)]
    with _running(state, words, keep=not once) as (process, ready), Client(state=state) as service:
        try:
            if trace is None:
                news = _News(service)
                _run_jobs(service, news, state, ready, as_json)
            else:
                _replay(service, state, ready, as_json)
                news = _News(service)
            if not once:
                _stay(state, news)
        except NotReachable:
            if process.poll() is None:
                raise
            raise BetimesError(f"the service has ended: {_fault(state)}") from None
        except KeyboardInterrupt:
            if once:
                raise
            _leave(service, state)


# --- the service --------------------------------------------------------------------------------------------------


@contextmanager
def _running(
    state: Path, words: Sequence[str], *, keep: bool
) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """`betimes up` with these options in a child process, and the object that it prints when it is ready.

    The service is stopped at the end, and its state removed unless `keep`. Ctrl-C, SIGTERM and a lost terminal end the
    block; raises BetimesError if the service cannot start.
    """
    signal.signal(signal.SIGHUP, _hung_up)
    with (state / _LOG).open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "betimes", "up", "--service", str(state), "--json", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=_environment(),
            start_new_session=True,  # Ctrl-C reaches this process only, which stops the service once
        )
    is_started = False
    try:
        ready = _ready(process, state)
        is_started = True
        yield process, ready
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        if not keep or not is_started:
            shutil.rmtree(state, ignore_errors=True)


def _environment() -> dict[str, str]:
    """The environment with this Python's programs first in PATH, so that jobs' `python` is this one."""
    return {
        **os.environ,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
    }


def _ready(process: subprocess.Popen[str], state: Path) -> dict[str, Any]:
    """The object that the service prints, once its policy is compiled, so that it promises at once."""
    from betimes.client import Client

    label = "starting; the first start compiles the kernels, up to a minute ..."
    slowly = threading.Timer(_SLOW_S, print, (label,), {"file": sys.stderr, "flush": True})
    slowly.start()
    try:
        line = process.stdout.readline() if process.stdout else ""
        if line and json.loads(line)["compiling"]:
            with suppress(NotReachable), Client(state=state) as service:  # it may be ending
                while not service.health().ready:
                    time.sleep(_LOOK_S)
                return json.loads(line)
        elif line:
            return json.loads(line)
    finally:
        slowly.cancel()
    code = process.wait()
    raise InputError(_fault(state)) if code == InputError.exit_code else BetimesError(_fault(state))


def _page(service: Client, ready: dict[str, Any]) -> list[str]:
    """The address of the service's page, which signs in once."""
    return [f"Its page, for a browser within a minute: {ready['url']}{service.page_link().path}"]


def _fault(state: Path) -> str:
    """The service's last line of output, which names the reason for its end."""
    lines = (state / _LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1].removeprefix("betimes: ") if lines else "it has ended without a word"


def _hung_up(*_: object) -> NoReturn:
    raise Left


# --- three jobs ---------------------------------------------------------------------------------------------------


def _run_jobs(service: Client, news: _News, state: Path, ready: dict[str, Any], as_json: bool) -> None:
    """Submit a loop of the shell, a training loop and one that waits for both; follow them, and sum up."""
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.jobs import promise_pairs
    from betimes.cli.render.times import now
    from betimes.service.spec.job_spec import JobSpec
    from betimes.service.spec.sbatch import command_line

    nodes = service.nodes()
    cores, gpus = sum(node.cpu for node in nodes), sum(node.gpu for node in nodes)
    has = f"{cores:g} core{'s' if cores != 1 else ''}" + (f", {gpus:g} GPUs" if gpus else "")
    (state / "train.py").write_text(_TRAIN, encoding="utf-8")
    core, width = min(1.0, cores), max(1, int(cores))
    here: dict[str, Any] = {"workdir": str(state), "cpu": core}
    specs = [
        JobSpec(name="count", command=["sh", "-c", _COUNT], estimate_s=6, **here),
        JobSpec(name="train", command=["python", "train.py"], estimate_s=20, **here),
        JobSpec(name="report", command=["sh", "-c", _REPORT], min_units=width, max_units=width, **here),
    ]
    if not as_json:
        say(
            f"A service runs at {ready['url']}, on this machine ({has}), under the policy {ready['policy']}.",
            f"Its state is fresh, in {state}.",
            *_page(service, ready),
            "",
            "Three jobs, and what each is promised when it is submitted:",
        )
    waiting: set[int | None] = set()
    for spec in specs:
        taken = service.submit(spec)
        waiting.add(taken.job_id)
        if taken.quote is not None:
            news.shown.add(taken.quote.quote_id)
        if not as_json:
            say("", f"Job {taken.job_id}, {spec.title}:  {command_line(spec.command)}")
            show_pairs(promise_pairs(taken, spec.max_units, now()))
    numbers = sorted(filter(None, waiting))
    if not as_json:
        say("", "What happens:")
    while waiting:
        event = news.following(silent=as_json)
        if event.kind in _ENDS:
            waiting.discard(event.job_id)
    over = [service.job(number).job for number in numbers]
    if as_json:
        print_json(over)
    else:
        say("", "Promised against actual:")
        show(_COLUMNS, [_row(job) for job in over])
    if wrong := [job for job in over if job.status != "finished"]:
        raise BetimesError(f"job {wrong[0].job_id}, {wrong[0].name}, {wrong[0].status.value}")


def _row(job: JobView) -> list[str]:
    from betimes.cli.render.jobs import off_by
    from betimes.cli.render.times import clock, now

    times = job.promised_finish_at, job.finished_at
    promised, finished = ("-" if at is None else clock(at, now()) for at in times)
    is_kept = job.status == "finished" and None not in times
    off = off_by((job.finished_at or 0.0) - (job.promised_finish_at or 0.0)) if is_kept else job.status.value
    return [str(job.job_id), job.name, promised, finished, off]


class _News:
    """The events of a service from now on, as they happen, with a line for each important one."""

    def __init__(self, service: Client) -> None:
        self.events = service.events(service.health().last_event_id, follow=True)
        self.names: dict[int | None, str] = {}
        self.promised: dict[int | None, float] = {}  # first promised finishes
        self.shown: set[int | None] = set()  # events shown by other means

    def following(self, silent: bool = False) -> EventView:
        """Wait for the next event and print its line."""
        event = next(self.events)
        if event.kind == "submitted":
            spec = event.data["spec"]
            self.names[event.job_id] = spec.get("name") or spec["command"][0].rsplit("/", 1)[-1]
        if event.kind == "quoted" and event.data["finish_at"] is not None:
            self.promised.setdefault(event.job_id, event.data["finish_at"])
        matters = event.kind in _SHOWN or (event.kind in _SHOWN_OF_ALL and event.cause != "operator")
        if not silent and matters and event.event_id not in self.shown:
            say(f"  {self._line(event)}")
            sys.stdout.flush()
        return event

    def _line(self, event: EventView) -> str:
        from betimes.cli.render.events import details
        from betimes.cli.render.jobs import off_by
        from betimes.cli.render.times import clock, now

        name = self.names.get(event.job_id)
        who = f"job {event.job_id}{f', {name}' if name else ''}: " if event.job_id is not None else ""
        what = details(event, now())
        if event.kind == "finished" and event.job_id in self.promised:
            what = off_by(event.at - self.promised[event.job_id])
        return f"{clock(event.at, now())}  {who}{', '.join(filter(None, (event.kind, what)))}"


# --- a trace ------------------------------------------------------------------------------------------------------


def _replay(service: Client, state: Path, ready: dict[str, Any], as_json: bool) -> None:
    """Follow a replay to its end, and sum it up."""
    from betimes.cli.live.replayed import EVERY_S, Tally, sum_up
    from betimes.cli.render.progress import Display

    tally, display, reported_s = Tally(ready["replayed_jobs"]), Display(), time.monotonic()
    if not as_json:
        say(
            f"A service runs at {ready['url']}, under the policy {ready['policy']}, and is given "
            f"{tally.jobs:,} jobs of the trace.",
            f"Its state is in {state}.",
            *_page(service, ready),
        )
    with display.shown():
        for event in service.events(follow=True):
            tally.take(event.at, event.kind, event.job_id, event.data)
            display.at("replay", str(tally), tally.over, tally.jobs)
            if not as_json and not sys.stderr.isatty() and time.monotonic() - reported_s >= EVERY_S:
                reported_s = time.monotonic()
                say(f"  {tally}")
                sys.stdout.flush()
            if tally.over == tally.jobs:
                break
    sum_up(tally, as_json)


# --- and then -----------------------------------------------------------------------------------------------------


def _stay(state: Path, news: _News) -> None:
    """Show what happens until Ctrl-C."""
    activate, folder = Path(sys.executable).parent / "activate", Path.cwd()
    shown = activate.relative_to(folder) if activate.is_relative_to(folder) else activate
    say("", "The service runs on until you press Ctrl-C here. In another terminal:", "")
    if activate.exists():
        say(f"  cd {folder}; . {shown}")
    say(
        f"  export BETIMES_STATE={state}",
        "  betimes submit --estimate 1m -- sleep 60",
        "  betimes open           # its page, in a browser",
        "  betimes jobs --watch",
        "  betimes job 2          # its story: promises, runs, events",
        "  betimes logs 2",
        "  betimes policy set srsf",
        "",
        "What happens then is shown here, too.",
    )
    sys.stdout.flush()
    while True:
        news.following()


def _leave(service: Client, state: Path) -> None:
    """Print the jobs and the state that are left behind."""
    left = [job.job_id for job in service.iterate_jobs() if job.started_at and not job.status.is_over]
    goes_on = f"job {left[0]}, which runs" if len(left) == 1 else f"{len(left)} jobs, which run"
    say("", f"The service stops. Its state stays in {state}:", f"  betimes up --service {state}")
    say("goes on where it was" + (f", with {goes_on} on meanwhile." if left else "."))
