"""The same work on Betimes and its peers in one run: submissions a second, 500 x `true`, and a log under EASY.

Peers: Slurm's sbatch (Debian's slurmctld, slurmd, slurm-client and munge, started here by root), task-spooler, GNU
parallel, a queue in SQLite (huey, in the Python that --python names), and AccaSim, another simulator. What is missing
is left out, with the reason. Eight jobs at once everywhere. Figures are wall-clock seconds, which other users of a
machine lengthen, of simulators CPU seconds: medians, with the least and the most beside them. Starting a service is
not in them.
"""
# ruff: noqa: D102 - the methods of a peer are those of `Peer`

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path

from measuring import ROOT, Table, introduce, traces_at

sys.path.insert(0, str(ROOT))
from tests.slurm.real_slurm import NoSlurm, real_slurm

AT_ONCE = 8
KTH = "swf/KTH-SP2-1996-2.swf.gz"
KTH_NODES = 100
KTH_JOBS = 2000  # that a simulator in plain Python plays in seconds
PATIENCE_S = 300.0  # until a service has compiled its policy, and until jobs are over
LOOK_S = 0.05  # between two looks whether they are
BETIMES = (sys.executable, "-m", "betimes")
Env = dict[str, str]


class Missing(Exception):
    """A peer that is not here; the message says what is missing."""


def call(*words: str, env: Env, stdin: str | None = None) -> str:
    """The output of a command. Raises Missing if it fails: what is not there says so."""
    try:
        done = subprocess.run(
            words, env=env, input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{words[0]}: no answer within {PATIENCE_S:g} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it fails"]
        raise Missing(f"{Path(words[0]).name}: {lines[-1]}")
    return done.stdout


def until(done: Callable[[], bool]) -> None:
    """Wait until jobs are over. Raises Missing if they never are."""
    give_up = time.monotonic() + PATIENCE_S
    while not done():
        if time.monotonic() > give_up:
            raise Missing(f"its jobs are not over after {PATIENCE_S:g} s")
        time.sleep(LOOK_S)


class Peer(ABC):
    """A program that runs commands in the background."""

    name: str

    @abstractmethod
    def version(self, env: Env) -> str:
        """The version. Raises Missing."""

    def running(self, folder: Path, env: Env) -> AbstractContextManager[Env]:
        """Inside, it takes jobs; the environment for its commands. Raises Missing."""
        return nullcontext(env)

    def submit(self, env: Env) -> None:
        """Submit one `true`, as a person does: in a process."""
        raise Missing("it has no queue: what it is given runs at once")

    @abstractmethod
    def all(self, count: int, env: Env) -> None:
        """Run `true` so many times in the quickest way that it has for separate jobs, until the last is over."""


class Betimes(Peer):
    """A service of this version, on as much of each core as lets so many run at once."""

    name = "Betimes"

    def version(self, env: Env) -> str:
        return version("betimes")

    @contextmanager
    def running(self, folder: Path, env: Env) -> Iterator[Env]:
        env = env | {"BETIMES_STATE": str(folder / "state")}
        up = [*BETIMES, "up", "--policy", "fifo", "--rate-limit", "off"]
        service = subprocess.Popen(up, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        try:
            first = self._one("--wait")
            until(lambda: subprocess.run(first, env=env, check=False, capture_output=True).returncode == 0)
            yield env
        finally:
            subprocess.run([*BETIMES, "cancel", "--all", "--yes"], check=False, capture_output=True, env=env)
            service.terminate()
            service.wait()

    def _one(self, *options: str) -> list[str]:
        share = f"{len(os.sched_getaffinity(0)) / AT_ONCE:g}"  # of the cores, so that so many run at once
        return [*BETIMES, "submit", "--cpu", share, "--estimate", "1s", *options, "--", "true"]

    def submit(self, env: Env) -> None:
        call(*self._one(), env=env)

    def all(self, count: int, env: Env) -> None:
        *words, _, _ = self._one("--wait", "--json", "--each-line", "-")
        call(*words, env=env, stdin="true\n" * count)


class Slurm(Peer):
    """Slurm's controller and one node, as Debian has them."""

    name = "Slurm"

    def version(self, env: Env) -> str:
        if shutil.which("sbatch") is None:
            raise Missing("no sbatch: slurmctld, slurmd, slurm-client, munge")
        return call("slurmctld", "-V", env=env).split()[-1]

    @contextmanager
    def running(self, folder: Path, env: Env) -> Iterator[Env]:
        try:
            with real_slurm(folder, env) as inside:
                yield inside
        except NoSlurm as reason:
            raise Missing(str(reason)) from None

    def submit(self, env: Env) -> None:
        call("sbatch", "--output", "/dev/null", "--wrap", "true", env=env)

    def all(self, count: int, env: Env) -> None:
        call("sbatch", "--output", "/dev/null", f"--array=1-{count}", "--wrap", "true", env=env)
        until(lambda: not call("squeue", "-h", env=env).strip())
        if found := {*call("squeue", "-h", "-t", "all", "-o", "%T", env=env).split()} - {"COMPLETED"}:
            raise Missing(f"its jobs end as {', '.join(found)}")


class Spooler(Peer):
    """task-spooler: a queue in one process, without a clock or a disk."""

    name = "task-spooler"

    def version(self, env: Env) -> str:
        if shutil.which("tsp") is None:
            raise Missing("no tsp: task-spooler")
        return call("tsp", "-V", env=env).split(" - ")[0].split()[-1].lstrip("v")

    @contextmanager
    def running(self, folder: Path, env: Env) -> Iterator[Env]:
        env = env | {"TS_SOCKET": str(folder / "socket"), "TMPDIR": str(folder), "TS_MAXFINISHED": "10"}
        call("tsp", "-S", str(AT_ONCE), env=env)
        try:
            yield env
        finally:
            subprocess.run(["tsp", "-K"], env=env, check=False)

    def submit(self, env: Env) -> None:
        call("tsp", "-n", "true", env=env)

    def all(self, count: int, env: Env) -> None:
        loop = f"for n in $(seq {count}); do tsp -n true >/dev/null; done"
        call("sh", "-c", loop, env=env)
        until(lambda: not any(word in call("tsp", env=env) for word in (" running ", " queued ")))


class Parallel(Peer):
    """GNU parallel: no queue, a loop that starts what it reads."""

    name = "GNU parallel"

    def version(self, env: Env) -> str:
        if shutil.which("parallel") is None:
            raise Missing("no parallel: parallel")
        return call("parallel", "--version", env=env).split("\n")[0].split()[-1]

    def all(self, count: int, env: Env) -> None:
        call("parallel", f"-j{AT_ONCE}", "-n0", "true", env=env, stdin="\n".join(map(str, range(count))))


class Huey(Peer):
    """A queue of Python functions in SQLite, with workers that run a program each."""

    name = "huey, SQLite"
    tasks = """
import subprocess
from huey import SqliteHuey
huey = SqliteHuey(filename="jobs.db")
@huey.task()
def run():
    subprocess.run(["true"], check=True)
    return True
def submit(count, waits):
    found = [run() for _ in range(count)]
    for one in found if waits else ():
        one.get(blocking=True, backoff=1.0, max_delay=0.05, preserve=True)
"""

    def __init__(self, python: str) -> None:
        self.python, self.folder = python, Path()

    def version(self, env: Env) -> str:
        try:
            return call(
                self.python, "-c", "from importlib.metadata import version as v; print(v('huey'))", env=env
            ).strip()
        except Missing:
            raise Missing("no huey in that Python: --python NAME") from None

    @contextmanager
    def running(self, folder: Path, env: Env) -> Iterator[Env]:
        self.folder = folder
        (folder / "tasks.py").write_text(self.tasks.replace('"jobs.db"', repr(str(folder / "jobs.db"))))
        consumer = "from huey.bin.huey_consumer import consumer_main; consumer_main()"
        words = [
            self.python,
            "-c",
            consumer,
            "tasks.huey",
            "-w",
            str(AT_ONCE),
            "-d",
            "0.01",
            "-m",
            "0.05",
            "-q",
        ]
        daemon = subprocess.Popen(words, cwd=folder, env=env | {"PYTHONPATH": str(folder)})
        try:
            self.all(1, env)
            yield env
        finally:
            daemon.terminate()
            daemon.wait()

    def submit(self, env: Env) -> None:
        self._submit(1, env, waits=False)

    def all(self, count: int, env: Env) -> None:
        self._submit(count, env, waits=True)

    def _submit(self, count: int, env: Env, *, waits: bool) -> None:
        path = env | {"PYTHONPATH": str(self.folder)}
        call(self.python, "-c", f"import tasks; tasks.submit({count}, {waits})", env=path)


ACCASIM = r"""
import collections, collections.abc, gzip, json, sys, time
collections.Mapping = collections.abc.Mapping  # it was written for earlier Pythons
from accasim.base.allocator_class import FirstFit
from accasim.base.scheduler_class import EASYBackfilling
from accasim.base.simulator_class import Simulator
log, folder, nodes, most = sys.argv[1:]
left = int(most)
with open(folder + "/log.swf", "w") as out:
    for line in gzip.open(log, "rt", errors="replace"):
        row = line.split()
        left -= not line.startswith(";")
        if left >= 0:
            out.write(line if line.startswith(";") else " ".join([*row[:9], "1", *row[10:]]) + "\n")
with open(folder + "/system.json", "w") as out:
    json.dump({"groups": {"g": {"core": 1, "mem": 1000000}}, "resources": {"g": int(nodes)}}, out)
simulator = Simulator(folder + "/log.swf", folder + "/system.json", EASYBackfilling(FirstFit()))
simulator.start_simulation()
"""


def cpu_s() -> float:
    """CPU seconds of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter) -> str:
    """`1.2 (1.1 to 1.5)`: the median, the least and the most seconds."""
    taken: list[float] = []
    for _ in range(repeats):
        started = clock()
        work()
        taken.append(clock() - started)
    return f"{statistics.median(taken):.3g} ({min(taken):.3g} to {max(taken):.3g})"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="50 jobs, once: a look, not a measurement")
    parser.add_argument("--data", type=Path, help="the folder of the public traces")
    parser.add_argument("--repeats", type=int, help="runs behind every median (default 5, with --quick 1)")
    parser.add_argument("--python", default=sys.executable, help="the Python that has huey and accasim")
    given = parser.parse_args()
    given.repeats = given.repeats or (1 if given.quick else 5)
    return given


def main() -> None:
    given = arguments()
    introduce(__doc__)
    count, single = (50, 5) if given.quick else (500, 20)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "BETIMES_"))}
    env["PATH"] = f"/usr/sbin:/sbin:{env['PATH']}"
    peers: Sequence[Peer] = (Betimes(), Slurm(), Spooler(), Parallel(), Huey(given.python))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"load of this machine before: {load}, on {os.cpu_count()} processors\n")
    table = Table("program", "version", "submissions/s".rjust(22), f"{count} x true, s".rjust(22), first=16)
    for peer in peers:
        try:
            _measure(peer, table, count, single, given.repeats, env)
        except Missing as reason:
            print(f"{peer.name}: left out: {reason}", flush=True)
    _easy(given, env)


def _measure(peer: Peer, table: Table, count: int, single: int, repeats: int, env: Env) -> None:
    known = peer.version(env)
    with tempfile.TemporaryDirectory() as folder, peer.running(Path(folder), env) as inside:
        rates: list[float] = []
        try:
            for _ in range(repeats):
                started = time.perf_counter()
                for _ in range(single):
                    peer.submit(inside)
                rates.append(single / (time.perf_counter() - started))
            rate = f"{statistics.median(rates):.3g} ({min(rates):.3g} to {max(rates):.3g})"
        except Missing:
            rate = "-"
        table.line(peer.name, known, rate, measured(lambda: peer.all(count, inside), repeats))


def _easy(given: argparse.Namespace, env: Env) -> None:
    """KTH-SP2 under EASY backfilling: CPU seconds of a process from start to end, with all that it loads and writes."""
    folder = traces_at(given.data, KTH)
    if folder is None:
        return
    log, some = str(folder / KTH), 500 if given.quick else KTH_JOBS
    print()
    table = Table("simulator", "version", "jobs", "KTH under EASY, CPU s".rjust(22), "mean wait, s", first=16)
    words = [*BETIMES, "simulate", log, "--policy", "easy", "--json"]
    for only in (["--jobs", str(some)], []):
        found = json.loads(call(*words, *only, env=env))  # and now it is compiled
        spent = measured(lambda only=only: call(*words, *only, env=env), given.repeats, cpu_s)
        table.line("Betimes", version("betimes"), found["jobs"], spent, found["wait_mean_s"])
    find = "from importlib.metadata import version as v; print(v('accasim'))"
    try:
        known = call(given.python, "-c", find, env=env).strip()
    except Missing:
        print("AccaSim: left out: no accasim in that Python: --python NAME")
    else:
        _accasim(given, env, table, known, log, some)
    print("pyss: left out: it is in no package registry")


def _accasim(given: argparse.Namespace, env: Env, table: Table, known: str, log: str, some: int) -> None:
    waits: list[float] = []
    with tempfile.TemporaryDirectory() as made:

        def run() -> None:
            words = [given.python, "-c", ACCASIM, log, made, str(KTH_NODES), str(some)]
            done = subprocess.run(words, env=env, cwd=made, capture_output=True, text=True, check=True)
            waits.append(float(done.stderr.split("Avg. waiting times: ")[1].split()[0]))

        table.line("AccaSim", known, some, measured(run, given.repeats, cpu_s), waits[0])


if __name__ == "__main__":
    main()
