"""No job is lost, doubled or falsely ended, whatever is killed, stopped, filled or exchanged while jobs run.

Jobs that note by themselves when each of their runs begins and ends are submitted while faults happen at random
moments: the service is killed, supervisors of runs are killed or stopped, folders of runs are forged, the disk of the
state directory is full, the database restarts. Its log is put back from a backup, emptied, or another database is used;
its write-ahead log is lost or damaged: the service has to refuse, and goes on with what is left once that is accepted.
A copy of the state is started beside what runs. Once it is quiet again, what the service recorded is compared with what
the jobs have noted; of a job that a log has lost nothing is expected but that no other one is taken for it. The exit
code is 0 if every count is zero.

By itself it starts a service on a small disk of its own (which takes root; else the disk is never full). With
`--service DIR` it is your own installation's: the service must not be running there, and is started and killed by this
script, with what stands behind `--`. With PostgreSQL, say how to restart it::

    python benchmarks/chaos.py --seconds 60
    python benchmarks/chaos.py --service DIR --fill --restart-database 'systemctl restart postgresql' -- --database URL

With `--owners ann,ben` root's service has users: they submit and cancel the jobs over its socket, and the jobs run as
they.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from betimes.client import Client, JobSpec
from betimes.errors import BetimesError, Conflict, ServiceError, Unknown
from betimes.service.access.unix_users import Account, account_of
from betimes.service.executors.supervision import files, processes
from betimes.service.scheduling.job_states import Status
from betimes.service.views.models import JobStory, RunView

LABEL = "chaos"
MARK = "mark"  # of one job
SOCKET = "socket"  # for owners of jobs
SMALL_DISK = "48m"
FAULTS_A_S = 1.5
LEAST_JOBS = 10  # in the log with which it ends
CALM_S = 180.0  # in which another job must end, once there are no more faults
READY_S = 90.0  # in which a service must be ready
QUEUE = 100  # jobs that wait for their first run: beyond it no more are submitted, so that it ends on slow machines too

# What a job could write as the end of its run.
FORGED = (
    '{"why": "exited", "exit_code": 0}',
    '{"why": "exited", "exit_code": 0, "max_rss_gib": "x"}',
    "[" * 10_000,
)

JOB = r"""
cd "$1"; run="$5 $BETIMES_ATTEMPT"
exec 9>"lock.$5"
flock -n 9 && echo "start $run" >>journal || echo "twice $run" >>journal
head -c "$4" /dev/zero
sleep "$2" 9>&- & wait $!
code=$3; [ "$code" = first ] && code=$((BETIMES_ATTEMPT == 1))
[ "$code" = kill ] && echo "end $run -9" >>journal && kill -KILL $$
echo "end $run $code" >>journal
exit "$code"
"""


@dataclass
class Counts:
    """The faults that were found, one line each."""

    lost: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    falsely_ended: list[str] = field(default_factory=list[str])

    def lines(self) -> Iterator[str]:
        """Each count, and the first of what is counted."""
        for name, wrong in (
            ("lost", self.lost),
            ("doubled", self.doubled),
            ("falsely ended", self.falsely_ended),
        ):
            yield f"{name:14s}{len(wrong):6d}"
            yield from (f"    {line}" for line in wrong[:20])

    @property
    def total(self) -> int:
        """The number of faults."""
        return len(self.lost) + len(self.doubled) + len(self.falsely_ended)


class Installation:
    """A service on a state directory, started and killed from here."""

    def __init__(self, state: Path, options: list[str]) -> None:
        self.state, self.options = state, options
        self.process: subprocess.Popen[bytes] | None = None
        self.client: Client | None = None
        self.said = ""  # by a service that did not start

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.poll() is None

    def start(self, *more: str) -> bool:
        """Start the service, with more options; whether it takes requests."""
        up = [sys.executable, "-m", "betimes", "up", "--json", "--service", str(self.state)]
        with tempfile.TemporaryFile("w+") as errors:
            command = [*up, *self.options, *more]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
            assert self.process.stdout is not None
            line = self.process.stdout.readline()  # nothing, if it has ended by itself
            self.process.stdout.close()
            if not line:
                self.process.wait()
                errors.seek(0)
                self.said = errors.read()
                return False
        self._forget()
        self.client = Client(state=self.state, patience_s=0.5)
        return True

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End the service, if it is up."""
        self._forget()
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()

    def _forget(self) -> None:
        if self.client is not None:
            self.client.close()
            self.client = None


class Disk:
    """The disk of the state directory: full, or not."""

    def __init__(self, folder: Path) -> None:
        self.filler = folder / "chaos.filler"

    @property
    def is_full(self) -> bool:
        """Whether `fill` has taken what there was."""
        return self.filler.exists()

    def fill(self) -> None:
        """Leave no byte free."""
        with self.filler.open("ab", buffering=0) as filler:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while filler.write(bytes(size)) == size:
                        pass

    def make_room(self) -> None:
        """Give back what `fill` has taken."""
        self.filler.unlink(missing_ok=True)


Fault = tuple[float, str, Callable[[], bool]]
"""A kind of fault: how often it is drawn, its name, and what lets it happen, which returns whether it could."""


class Chaos:
    """Jobs, and what happens to them."""

    cpu = 0.25  # of each job
    least_faults = 0  # in all, before it ends
    least_jobs = LEAST_JOBS
    faults_a_s = FAULTS_A_S

    def __init__(
        self,
        at: Installation,
        notes: Path,
        disk: Disk | None,
        restart: str | None,
        seed: int,
        owners: Sequence[Account] = (),
    ) -> None:
        self.owners = owners
        self.at, self.notes, self.disk, self.draw = at, notes, disk, random.Random(seed)
        self.restart = restart
        self.given_options = len(at.options)
        self.backup = at.state / "chaos.backup"
        self.lacks = False  # the log was exchanged, and the service has not been started since
        self.exchanges = 0  # of the database, for the other one of two
        self.wrong: list[str] = []  # of copies
        self.mark = f"{os.getpid()}-{time.time():.0f}"
        self.sorts: dict[int, str] = {}  # what the code of each accepted job is
        self.marks: dict[int, str] = {}  # what its runs call themselves in the journal
        self.asked: list[tuple[str, Sequence[str]]] = []  # not known to be accepted: key, codes
        self.keys = 0
        self.accepted = 0
        self.cancelled: set[str] = set()
        self.hurt: set[str] = set()  # jobs one of whose supervisors was killed, or whose log was put back
        # Jobs whose folder was forged: their supervisors live on, so that they can be asked.
        self.forged: set[str] = set()
        self.stopped: list[tuple[float, int]] = []  # supervisors that are let go on later
        self.later: list[tuple[float, Callable[[], object]]] = []  # what else ends a fault
        self.faults: dict[str, int] = defaultdict(int)

    def rage(self, seconds: float) -> None:
        """Submit jobs, and let faults happen, for so long and until each kind of fault has happened."""
        end, patience_at = time.monotonic() + seconds, time.monotonic() + seconds + CALM_S
        kinds = self._kinds()
        fault_at = time.monotonic()
        while (
            (rages := time.monotonic() < end or sum(self.faults.values()) < self.least_faults)
            or not all(self.faults[name] for _, name, _ in kinds)
            or len(self.sorts) < self.least_jobs
        ):
            if time.monotonic() > patience_at:
                missing = ", ".join(name for _, name, _ in kinds if not self.faults[name]) or "jobs"
                raise ServiceError(
                    f"within {CALM_S:g} s after another fault there could be no {missing}: do jobs run at all?"
                )
            self._go_on()
            if not self.at.is_up:
                self._start()
            self._work()
            # On a slow machine some kinds may not have been drawn by the end.
            drawn = kinds if rages else [kind for kind in kinds if not self.faults[kind[1]]]
            if drawn and time.monotonic() >= fault_at:
                [(_, name, act)] = self.draw.choices(drawn, [weight for weight, *_ in drawn])
                happens = act()
                if happens and (self.least_faults or not self.faults[name]):
                    patience_at = max(patience_at, time.monotonic() + CALM_S)
                self.faults[name] += happens
                fault_at = time.monotonic() + self.draw.expovariate(self.faults_a_s)
            time.sleep(self.draw.uniform(0.0, 0.05))

    def calm(self) -> list[str]:
        """End all faults and wait until every job is over, as long as some end; what is not, though it had the time."""
        for _, end in self.later:
            end()
        self.later = []
        for _, pid in self.stopped:
            processes.send(pid, signal.SIGCONT)
        patience_at = time.monotonic() + CALM_S
        live: list[int] = []
        fewest = math.inf
        while time.monotonic() < patience_at:
            if not self.at.is_up:
                self._start()
            try:
                while self.asked:
                    self._submit()
                live = [
                    job.job_id
                    for job in self._client.iterate_jobs(label={LABEL: self.mark})
                    if not job.status.is_over
                ]
                if not live:
                    return []
                if len(live) < fewest:
                    fewest, patience_at = len(live), time.monotonic() + CALM_S
            except ServiceError:
                pass
            time.sleep(0.1)
        return [f"job {number} is not over {CALM_S:g} s after another one was" for number in live] or [
            "the service does not answer"
        ]

    # --- work ---

    @property
    def _client(self) -> Client:
        if self.at.client is None:
            raise ServiceError("the service is not up")
        return self.at.client

    @contextlib.contextmanager
    def _client_for(self, key: str) -> Iterator[Client]:
        """A client of the owner of what is submitted under a key; without owners, the one there is."""
        if not self.owners:
            yield self._client
            return
        owner = self.owners[int(key.rpartition("-")[2]) % len(self.owners)]
        os.setegid(owner.gid)
        os.seteuid(owner.uid)  # by which the service knows who connects
        try:
            with Client(f"unix:{self.notes.parent / SOCKET}", patience_s=0.5) as client:
                yield client
        finally:
            os.seteuid(0)
            os.setegid(0)

    def _work(self) -> None:
        """A request of some kind; one that fails is made again later, or not."""
        try:
            if len(self.asked) < 3 and self._queued() < QUEUE and self.draw.random() < 0.5:
                self.keys += 1
                codes = self.draw.choices(
                    ("0", "4", "first", "kill", "long"), (8, 4, 2, 1, 4), k=self.draw.choice((1, 1, 4))
                )
                self.asked.append((f"{self.mark}-{self.keys}", codes))
            if self.asked:
                self._submit()
            if self.sorts and self.draw.random() < 0.1:
                number = self.draw.choice(list(self.sorts)[-20:])
                self.cancelled.add(self.marks[number])  # also if the answer is lost
                with self._client_for(self.marks[number].partition(".")[0]) as client:
                    client.cancel(number)
        except (ServiceError, Conflict, Unknown):
            pass  # down, full, restarting, or it is over already

    def _submit(self) -> None:
        key, codes = self.asked[0]
        specs = [self._spec(code, number, f"{key}.{number}") for number, code in enumerate(codes)]
        with self._client_for(key) as client:
            taken = client.submit(specs, key=key)
        for number, (one, code) in enumerate(zip(taken, codes, strict=True)):
            self.sorts[one.job_id], self.marks[one.job_id] = code, f"{key}.{number}"
        self.accepted += len(taken)
        del self.asked[0]

    def _spec(self, code: str, number: int, mark: str) -> JobSpec:
        seconds = "2" if code == "long" else ("0", "0.05", "0.3")[number % 3]
        says = "20000" if number % 2 else "10"
        return JobSpec(
            command=["sh", "-c", JOB, "chaos", str(self.notes), seconds, "0" if code == "long" else code, says, mark],
            name=f"chaos-{code}", workdir="/", estimate_s=1.0, grace_s=1.0, labels={LABEL: self.mark, MARK: mark},
            retries=1 if code == "first" else 0, backoff_s=0.05 if code == "first" else 0.0,
            cpu=self.cpu,
        )  # fmt: skip

    # --- faults ---

    def _kinds(self) -> list[Fault]:
        kinds: list[Fault] = [
            (1.0, "services killed", self._kill_service),
            (2.0, "supervisors killed", lambda: self._hurt(signal.SIGKILL)),
            (2.0, "supervisors stopped", lambda: self._hurt(signal.SIGSTOP)),
            (2.0, "run folders forged", self._forge),
        ]
        if self.disk is not None:
            kinds.append((1.5, "disks filled", self._fill))
        if self.restart is not None:
            kinds.append((1.0, "databases restarted", self._restart_database))
        if "--database" not in self.at.options:  # a server's has no files that could be exchanged
            kinds += [
                (0.2, "logs put back", lambda: self._another_log(self._put_back)),
                (0.1, "logs emptied", lambda: self._another_log(self._empty)),
                (0.1, "databases exchanged", lambda: self._another_log(self._exchange)),
                (0.2, "write-ahead logs lost", lambda: self._another_log(self._lose_wal)),
                (0.2, "write-ahead logs damaged", lambda: self._another_log(self._damage_wal)),
                (0.1, "copies started", self._start_copy),
            ]
        return kinds

    def _start(self) -> None:
        """Start the service; on a full disk it may refuse, and is given room; or because its log lacks events."""
        if self.lacks:
            self._accept_loss()
            return
        give_up = time.monotonic() + READY_S
        while not self.at.start():
            if self.disk is not None and self.disk.is_full:
                self.disk.make_room()
            if time.monotonic() > give_up:
                raise ServiceError(f"the service does not start on {self.at.state}: {self.at.said[-2000:]}")
            time.sleep(0.2)

    def _accept_loss(self) -> None:
        """Start a service that refuses what is left of its log, and find out what that still has."""
        self.at.kill()
        if self.at.start():  # nothing was lost: all of it had left the write-ahead log
            self.lacks = False
            return
        if "damaged" in self.at.said and "--accept-loss" not in self.at.said:  # SQLite cannot read it
            self._empty()
        give_up = time.monotonic() + READY_S
        while not self.at.start("--accept-loss"):
            if self.disk is not None and self.disk.is_full:
                self.disk.make_room()
            if time.monotonic() > give_up:
                raise ServiceError(f"the service does not start: {self.at.said}")
            time.sleep(0.2)
        left = list(self._client.iterate_jobs(label={LABEL: self.mark}))
        self.marks = {job.job_id: job.labels[MARK] for job in left}
        self.sorts = {job.job_id: job.name.removeprefix("chaos-") for job in left}
        self.hurt |= set(self.marks.values())  # what has become of them since is found out again
        self.asked = []  # an answer that was lost may have been one of a log that is gone
        self.lacks = False

    def _another_log(self, change: Callable[[], bool]) -> bool:
        """Exchange, lose or damage the log of a service that was killed."""
        if self.disk is not None and self.disk.is_full:
            return False
        self.at.kill()
        self.lacks = change()
        return self.lacks

    def _back_up(self) -> None:
        self.backup.mkdir(exist_ok=True)
        for old in self.backup.glob(f"{self._database.name}*"):
            old.unlink()
        for file in self._database_files():
            shutil.copy(file, self.backup)

    def _put_back(self) -> bool:
        copies = list(self.backup.glob(f"{self._database.name}*"))
        if not copies:
            self._back_up()  # for the next time
            return False
        self._empty()
        for copy in copies:
            shutil.copy(copy, self.at.state)
        return True

    def _empty(self) -> bool:
        for file in self._database_files():
            file.unlink()
        return True

    def _exchange(self) -> bool:
        """Use the other one of two databases."""
        self.exchanges += 1
        self.at.options[self.given_options :] = ["--database", f"sqlite:///{self._database}"]
        return True

    def _lose_wal(self) -> bool:
        return self._on_wal(Path.unlink)

    def _damage_wal(self) -> bool:
        def damage(wal: Path) -> None:
            content = bytearray(wal.read_bytes())
            at = self.draw.randrange(len(content))
            content[at : at + 100] = bytes(255 - byte for byte in content[at : at + 100])
            wal.write_bytes(content)

        return self._on_wal(damage)

    def _on_wal(self, act: Callable[[Path], object]) -> bool:
        found = [
            file for file in self._database_files() if file.name.endswith("-wal") and file.stat().st_size
        ]
        for wal in found:
            act(wal)
        return bool(found)

    @property
    def _database(self) -> Path:
        """The database in use."""
        return self.at.state / ("other.db" if self.exchanges % 2 else "betimes.db")

    def _database_files(self) -> list[Path]:
        files = (self._database.with_name(f"{self._database.name}{end}") for end in ("", "-wal", "-shm"))
        return [file for file in files if file.exists()]

    def _start_copy(self) -> bool:
        """Start a copy of the state beside what runs: first it refuses, and then no job that is there may start."""
        if self.disk is not None and self.disk.is_full:
            return False
        self.at.kill()
        with tempfile.TemporaryDirectory(prefix="betimes-chaos-copy-") as folder:
            copied = Path(folder, "state")
            try:
                shutil.copytree(self.at.state, copied, ignore=shutil.ignore_patterns("control"))
            except shutil.Error as failed:  # supervisors go on, and rename what they have written
                if any(Path(source).exists() for source, _, _ in failed.args[0]):
                    raise
            options = [
                *self.at.options[: self.given_options],
                "--database",
                f"sqlite:///{copied / self._database.name}",
            ]
            copy = Installation(copied, options)
            try:
                if copy.start() or "--as-copy" not in copy.said:
                    self.wrong.append(f"a copy was not refused: {copy.said or 'it started'}")
                elif not copy.start("--as-copy"):
                    self.wrong.append(f"a copy did not start: {copy.said}")
                else:
                    assert copy.client is not None
                    self.wrong += [
                        f"job {job.job_id} is {job.status} in a copy"
                        for job in copy.client.iterate_jobs()
                        if not job.status.is_over and job.status is not Status.HELD
                    ]
            finally:
                copy.kill()
        return True

    def _kill_service(self) -> bool:
        self.at.kill()
        if not (self.disk is not None and self.disk.is_full) and self.draw.random() < 0.3:
            self._back_up()
        return True

    def _hurt(self, number: int) -> bool:
        """Kill or stop the supervisor of some run that goes on."""
        going = [one for one in self._supervisors() if self.marks[one[0]] not in self.forged]
        if not going:
            return False
        job, pid = self.draw.choice(going)
        if number == signal.SIGKILL:
            self.hurt.add(self.marks[job])
        else:
            self.stopped.append((time.monotonic() + self.draw.uniform(0.1, 3.0), pid))
        return processes.send(pid, number)

    def _forge(self) -> bool:
        """Put something into the folder of a run that goes on, as its job could: it must not be believed."""
        going = [number for number, _ in self._supervisors() if self.marks[number] not in self.hurt]
        if not going:
            return False
        job = self.draw.choice(going)
        self.forged.add(self.marks[job])
        # Folders that were set aside have other names.
        runs = [run for run in (self._runs / str(job)).iterdir() if run.name.isdigit()]
        folder = max(runs, key=lambda run: int(run.name))
        name = self.draw.choice((files.EXIT, files.EXIT, files.LOCK, f"{files.LOG}.lost", files.JOB_FOLDER))
        with contextlib.suppress(OSError):  # it has just ended
            if name == files.JOB_FOLDER:
                shutil.rmtree(folder / name)
            elif name == files.LOCK:
                (folder / name).unlink()
            elif self.draw.random() < 0.5 and not (folder / name).exists():
                (folder / name).mkdir()
            elif not (folder / name).exists():
                (folder / name).write_text(self.draw.choice(FORGED))
        return True

    def _supervisors(self) -> Iterator[tuple[int, int]]:
        """The live supervisors of this script's jobs: job, process."""
        for number in self._started()[-50:]:
            for said in (self._runs / str(number)).glob(f"*/{files.SHIM}"):
                with contextlib.suppress(OSError, ValueError):
                    shim = json.loads(said.read_text())
                    if processes.lives(shim["pid"], shim["start_ticks"]):
                        yield number, shim["pid"]

    @property
    def _runs(self) -> Path:
        return self.at.state / "runs"

    def _started(self) -> list[int]:
        """The accepted jobs that a run has been prepared for, in the order of their numbers."""
        if not self._runs.exists():
            return []
        names = (folder.name for folder in self._runs.iterdir())
        return sorted(int(name) for name in names if name.isdigit() and int(name) in self.sorts)

    def _queued(self) -> int:
        """The number of jobs that were accepted after the last one that has started."""
        last = max(self._started(), default=-1)
        return sum(number > last for number in self.sorts)

    def _fill(self) -> bool:
        assert self.disk is not None
        if self.disk.is_full:
            return False
        self.disk.fill()
        self.later.append((time.monotonic() + self.draw.uniform(0.2, 3.0), self.disk.make_room))
        return True

    def _restart_database(self) -> bool:
        subprocess.run(str(self.restart), shell=True, check=True, stdout=subprocess.DEVNULL)
        return True

    def _go_on(self) -> None:
        """End the faults that have lasted long enough."""
        now = time.monotonic()
        for at_s, pid in self.stopped:
            if at_s <= now:
                processes.send(pid, signal.SIGCONT)
        for at_s, end in self.later:
            if at_s <= now:
                end()
        self.stopped = [one for one in self.stopped if one[0] > now]
        self.later = [one for one in self.later if one[0] > now]

    # --- what came of it ---

    def judge(self) -> Counts:
        """Compare what was recorded with what the jobs have noted."""
        found = Counts(falsely_ended=list(self.wrong))
        began, ended = defaultdict[tuple[str, int], int](int), dict[tuple[str, int], int]()
        for line in (self.notes / "journal").read_text().splitlines():
            what, job, attempt, *code = line.split()
            run = job, int(attempt)
            if what == "twice":
                found.doubled.append(f"run {job}.{attempt} began while another of the job was going on")
            if what != "end":
                began[run] += 1
            else:
                ended[run] = int(code[0])
        found.doubled += [
            f"run {job}.{n} began {times} times" for (job, n), times in began.items() if times > 1
        ]
        listed = {job.job_id for job in self._client.iterate_jobs(label={LABEL: self.mark})}
        found.lost += [f"job {number} was accepted and is not there" for number in set(self.sorts) - listed]
        found.doubled += [
            f"job {number} was never accepted, or is there twice" for number in listed - set(self.sorts)
        ]
        for number in sorted(listed & set(self.sorts)):
            self._judge(number, self._client.job(number), began, ended, found)
        return found

    def _judge(
        self,
        number: int,
        story: JobStory,
        began: dict[tuple[str, int], int],
        ended: dict[tuple[str, int], int],
        found: Counts,
    ) -> None:
        code, mark, wrong = self.sorts[number], self.marks[number], found.falsely_ended
        runs = {run.number: run for run in story.runs}
        wrong += [f"run {number}.{n} is not recorded" for job, n in began if job == mark and n not in runs]
        whole = {n for n, run in runs.items() if not self._had_to_end(run)}
        if mark not in self.hurt and len(whole) > (2 if code == "first" else 1):
            found.doubled.append(f"job {number} ({code}) has {len(whole)} runs, though nobody has killed one")
        if code != "first" and len(whole) > 1 and mark not in self.cancelled:
            found.doubled.append(f"job {number} has no retries, and {len(whole)} runs")
        for n, run in runs.items():
            name = f"run {number}.{n} ({code})"
            truly, said = ended.get((mark, n)), -(run.signal or 0) or run.exit_code
            if run.outcome is None or run.ended_at is None:
                wrong.append(f"{name} has no end")
            elif run.outcome == "lost" and mark not in self.hurt:
                wrong.append(f"{name} is lost, though its supervisor was not killed: {run.message}")
            elif run.outcome == "exited" and said != truly:
                wrong.append(f"{name} has exited with {truly}, and {said} is recorded")
            elif run.outcome not in ("exited", "lost") and mark not in self.cancelled and n in whole:
                wrong.append(f"{name} is {run.outcome}: {run.message}")
        last, status = runs.get(max(runs, default=0)), story.job.status
        if status is Status.CANCELLED:
            if mark not in self.cancelled:
                wrong.append(f"job {number} is cancelled, which nobody asked for")
        elif last is None:
            found.lost.append(f"job {number} ({code}) is {status} and has never run")
        elif (status is Status.FINISHED) != (last.outcome == "exited" and last.exit_code == 0):
            wrong.append(f"job {number} is {status}, and its last run {last.outcome} with {last.exit_code}")

    def _had_to_end(self, run: RunView) -> bool:
        """Whether a run ended with the machine on which it was."""
        return False


@contextlib.contextmanager
def small_disk() -> Iterator[tuple[Path, bool]]:
    """A folder, and whether it is on a small disk of its own."""
    folder = Path(tempfile.mkdtemp(prefix="betimes-chaos-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK},mode=700", "betimes-chaos", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield folder, mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder)


def run(chaos: Chaos, seconds: float) -> Counts:
    """Faults for so long, then a comparison of what was recorded with what happened."""
    try:
        chaos.rage(seconds)
        late = chaos.calm()
        found = chaos.judge()
        found.lost += late
        return found
    finally:
        for _, end in chaos.later:
            end()
        chaos.at.kill()


def main(arguments: list[str] | None = None) -> int:
    """Print what was lost, doubled and falsely ended; 0: nothing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults happen (default 60)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of what happens, and when")
    parser.add_argument(
        "--service",
        dest="state",
        type=Path,
        help="the state directory of an installation; by default a new one",
    )
    parser.add_argument("--fill", action="store_true", help="with --service: its disk may be filled, too")
    parser.add_argument("--owners", metavar="USER,USER", default="", help="Unix users whose jobs they are")
    parser.add_argument("--restart-database", metavar="COMMAND", help="restarts the database and returns")
    parser.add_argument("options", nargs="*", help="of `betimes up`, behind --")
    given = parser.parse_args(arguments)
    # The disk and the service go, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with (
        small_disk() as (own, is_small),
        tempfile.TemporaryDirectory(prefix="betimes-chaos-notes-") as folder,
    ):
        notes = Path(folder, "notes")
        notes.mkdir()
        Path(notes, "journal").touch()
        state = given.state or own / "state"
        fills = given.fill if given.state else is_small
        disk = Disk(state if given.state else own) if fills else None
        options = given.options or ([] if given.state else ["--policy", "nodes:fifo"])  # many runs at once
        owners = [account_of(name) for name in given.owners.split(",") if name]
        if owners:
            options += ["--local-users", "any", "--socket", str(Path(folder, SOCKET))]
            own.chmod(0o711)
            Path(folder).chmod(0o711)  # where the socket is, owners may not write
            notes.chmod(0o777)
            Path(notes, "journal").chmod(0o666)
        at = Installation(state, options)
        chaos = Chaos(at, notes, disk, given.restart_database, given.seed, owners)
        print(f"seed {given.seed}, {given.seconds:g} s of faults on {state}", flush=True)
        try:
            found = run(chaos, given.seconds)
        except BetimesError as error:
            print(f"chaos: {error}", file=sys.stderr)
            return 1
        runs = len((notes / "journal").read_text().split("start ")) - 1
        print(
            f"{chaos.accepted} jobs, {len(chaos.sorts)} of them in the log at the end, {runs} runs, "
            f"{len(chaos.cancelled)} cancellations asked for"
        )
        print(", ".join(f"{count} {name}" for name, count in chaos.faults.items() if count))
        if disk is None:
            print("the disk was never full: that takes root, or --fill with --service")
        print("\n".join(found.lines()))
        return 1 if found.total else 0


if __name__ == "__main__":
    sys.exit(main())
