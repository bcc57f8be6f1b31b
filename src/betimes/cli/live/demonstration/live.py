"""Real jobs on a real service, from the promise to the truth."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from betimes.cli.live.demonstration.child import Child
from betimes.cli.live.demonstration.jobs import jobs
from betimes.cli.live.demonstration.news import News
from betimes.cli.render.jobs import command_line, off_by, promise_pairs
from betimes.cli.render.tables import Column, say, show, show_pairs
from betimes.cli.render.times import clock, now
from betimes.client import Client
from betimes.errors import BetimesError, NotReachable

if TYPE_CHECKING:
    from betimes.service.views.models import JobView

_COLUMNS = (
    Column("Job", right=True),
    Column("Name"),
    Column("Promised"),
    Column("Actual"),
    Column("Off"),
)


class Demonstration:
    """Submits, follows, sums up, and stays for whatever the reader does next."""

    def __init__(self, child: Child, *, once: bool, as_json: bool) -> None:
        self.child, self.once, self.as_json = child, once, as_json

    def show(self) -> None:
        """All of it; returns at the end of the summary with `once`, and on Ctrl-C else."""
        with Client(state=self.child.state) as service:
            self._introduce(service)
            news = News(service, self.child.ready["policy"], service.health().last_event_id)
            numbers = self._submit(service, news)
            self._say("", "What happens:")
            try:
                over = self._follow(service, news, numbers)
                self._sum_up(over)
                if not self.once:
                    self._stay(news)
            except NotReachable:
                if self.child.process.poll() is None:
                    raise
                raise BetimesError(f"the service has ended: {self.child.fault()}") from None
            except KeyboardInterrupt:
                if self.once:
                    raise
                self._leave(service)

    def _introduce(self, service: Client) -> None:
        cores = sum(node.cpu for node in service.nodes())
        gpus = sum(node.gpu for node in service.nodes())
        has = f"{cores:g} core{'s' if cores != 1 else ''}" + (f", {gpus:g} GPUs" if gpus else "")
        self._say(
            f"A service runs at {self.child.ready['url']}, on this machine ({has}), under the policy "
            f"{self.child.ready['policy']}.",
            f"Its state is fresh, in {self.child.state}.",
        )

    def _submit(self, service: Client, news: News) -> list[int]:
        cores = sum(node.cpu for node in service.nodes())
        numbers: list[int] = []
        self._say("", "Three jobs, and what each is promised when it is submitted:")
        for spec in jobs(self.child.state, cores):
            taken = service.submit(spec)
            numbers.append(taken.job_id)
            news.know(taken, spec.title)
            if not self.as_json:
                say("", f"Job {taken.job_id}, {spec.title}:  {command_line(spec)}")
                show_pairs(promise_pairs(taken, spec.max_units, now()))
        return numbers

    def _follow(self, service: Client, news: News, numbers: Sequence[int]) -> list[JobView]:
        """Say what happens until all of these are over."""
        waiting = set(numbers)
        while waiting:
            event, line = news.following()
            if line:
                self._say(f"  {line}")
            if event.job_id is not None and event.kind in ("finished", "failed", "cancelled"):
                waiting.discard(event.job_id)
        return [service.job(number).job for number in numbers]

    def _sum_up(self, over: Sequence[JobView]) -> None:
        wrong = [job for job in over if job.status != "finished"]
        if self.as_json:
            from betimes.cli.render.as_json import print_json

            print_json(over)
        else:
            say("", "Promised against actual:")
            show(_COLUMNS, [_row(job) for job in over])
        if wrong:
            raise BetimesError(f"job {wrong[0].job_id}, {wrong[0].name}, {wrong[0].status.value}")

    def _stay(self, news: News) -> None:
        say(
            "",
            "The service runs on until you press Ctrl-C here. In another terminal:",
            "",
            *(f"  {line}" for line in self._hints()),
            "",
            "What happens then is shown here, too.",
        )
        sys.stdout.flush()
        while True:
            _, line = news.following()
            if line:
                self._say(f"  {line}")

    def _hints(self) -> list[str]:
        from pathlib import Path

        bin_folder = Path(sys.executable).parent
        activate = bin_folder / "activate"
        folder = Path.cwd()
        shown = activate.relative_to(folder) if activate.is_relative_to(folder) else activate
        return [
            *([f"cd {folder}; . {shown}"] if activate.exists() else []),
            f"export BETIMES_STATE={self.child.state}",
            "betimes submit --estimate 1m -- sleep 60",
            "betimes jobs --watch",
            "betimes job 2          # its story: promises, runs, events",
            "betimes logs 2",
            "betimes policy set srsf",
        ]

    def _leave(self, service: Client) -> None:
        """Say what stays behind."""
        left = [job.job_id for job in service.iterate_jobs() if job.started_at and not job.status.is_over]
        state = self.child.state
        say("", f"The service stops. Its state stays in {state}:", f"  betimes up --state {state}")
        say("goes on where it was" + (f", with {_jobs(left)}, which runs on meanwhile." if left else "."))

    def _say(self, *lines: str) -> None:
        if not self.as_json:
            say(*lines)
            sys.stdout.flush()


def _row(job: JobView) -> list[str]:
    at_now = now()
    promised, finished = job.promised_finish_at, job.finished_at
    return [
        str(job.job_id),
        job.name,
        "-" if promised is None else clock(promised, at_now),
        "-" if finished is None else clock(finished, at_now),
        off_by(finished - promised)
        if job.status == "finished" and finished and promised
        else job.status.value,
    ]


def _jobs(numbers: Sequence[int]) -> str:
    return f"job {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} jobs"
