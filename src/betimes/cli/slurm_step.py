"""A step of a job: the nodes, cores and GPUs that it gets, and its tasks on one machine.

Steps of a job that run at once share its cores and GPUs as with Slurm: each takes as many as it asks for, and waits
until they are free. Source: the manual page of srun, Slurm 24.11.
"""

from __future__ import annotations

import fcntl
import os
import queue
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from betimes.cli.live.following import Left
from betimes.errors import BetimesError, InputError
from betimes.printing import report
from betimes.service.spec.sbatch import evenly, gpu_number, gres, tasks_per_node
from betimes.service.spec.spelling import exported, file_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    News = tuple[int | None, int]  # a task and its exit code, or a signal that came

BY_SIGNAL = 128  # and the signal's number is the exit code of a task that a signal has ended
CANNOT_START = 2
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FOLDER = "srun"  # in a run's folder
MACHINES = "machines.json"
"""There, where the job has several machines: the address of the helper on each, in the order of ranks."""
LOOK_S = 0.1  # for cores that other steps have


def cannot_start(command: list[str], error: OSError) -> BetimesError:
    """The error of a program that cannot be started; the reason is printed."""
    text = f"{command[0]}: {error.strerror}; name a program that is there, or its full path"
    report("srun: error", text)
    return Left(CANNOT_START)


def _number(asked: Mapping[str, str], name: str, default: int) -> int:
    """A whole number of 1 or more; of a range the least. Raises InputError."""
    text = asked.get(name)
    if text is None:
        return default
    number = text.partition("-")[0]
    if not number.isdecimal() or int(number) < 1:
        raise InputError(f"--{name}={text}: is not a number of 1 or more")
    return int(number)


class Node(NamedTuple):
    """A node of the job: a machine's share of it, of which one machine may have several.

    at: its place among those of its machine; of: how many these are.
    """

    name: str
    machine: int
    at: int
    of: int

    def own(self, devices: list[str]) -> list[str]:
        """Its own of the GPUs that the job has on its machine."""
        each = len(devices) // self.of
        return devices[self.at * each : (self.at + 1) * each]


class Allocation(NamedTuple):
    """What a job has: its nodes, and the cores and GPUs of each."""

    nodes: list[Node]
    cores: int  # 0: not known
    gpus: int

    @classmethod
    def of_this_job(cls) -> Allocation:
        """That of the job that this process is of."""
        job = os.environ
        names = job.get("SLURM_JOB_NODELIST", socket.gethostname()).split(",")
        if "SLURM_STEP_ID" in job:  # a step of a step is where that is
            names, held = [job.get("SLURMD_NODENAME", names[0])], [1]
        elif Path(job["BETIMES_RUN_DIR"], FOLDER, MACHINES).exists():
            held = [int(units) for units in job["BETIMES_NODE_UNITS"].split(",")]
        elif "," not in job.get("BETIMES_NODES", ""):
            held = [len(names)]
        else:  # its command was started on each
            names, held = [job.get("SLURMD_NODENAME", names[0])], [1]
        places = [(machine, at, count) for machine, count in enumerate(held) for at in range(count)]
        nodes = [Node(name, *place) for name, place in zip(names, places, strict=True)]
        return cls(nodes, int(job.get("SLURM_CPUS_ON_NODE", "0")), len(_devices()) // held[0])


class Plan(NamedTuple):
    """A step: its options, number and folder; its nodes, and of each how many tasks it gets and which of its GPUs.

    gpus: null: all of the node's.
    """

    asked: dict[str, str]
    number: int
    folder: str
    nodes: list[Node]
    counts: list[int]
    gpus: list[list[int]] | None
    gpus_each: int | None  # of a task

    @property
    def tasks(self) -> int:
        """The number of all tasks."""
        return sum(self.counts)


def _devices() -> list[str]:
    return [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]


def planned(asked: dict[str, str], job: Allocation) -> Plan:
    """Choose the nodes of a step, and take their cores and GPUs. Raises InputError for what the job does not have."""
    nodes = _wanted_nodes(asked, job)
    counts = _counts(asked, len(nodes), len(job.nodes))
    # On as many machines as there are, as launchers of MPI expect of a step of fewer nodes.
    if 1 < len(counts) < len(nodes) and "nodelist" not in asked:
        nodes.sort(key=lambda number: job.nodes[number].at)
    gpus_each = _gpus(asked, "gpus-per-task")
    per_node = _gpus(asked, "gpus-per-node", "gres")
    gpus: list[int] | None = None
    if gpus_each:
        gpus = [count * gpus_each for count in counts]
    elif (total := _gpus(asked, "gpus")) is not None:
        if total % len(counts):
            raise InputError(
                f"--gpus={total}: is no multiple of the step's {len(counts)} nodes; write --gpus-per-node"
            )
        gpus = [total // len(counts)] * len(counts)
    elif per_node is not None:
        gpus = [per_node] * len(counts)
    cpus = [count * _number(asked, "cpus-per-task", 1) for count in counts]
    number, chosen, taken = _taken(asked, job, nodes, cpus, gpus)
    folder = str(Path(asked.get("chdir", "")).absolute())
    return Plan(asked, number, folder, chosen, counts, taken, gpus_each)


def _wanted_nodes(asked: Mapping[str, str], job: Allocation) -> list[int]:
    """The numbers of the job's nodes on which the step may be."""
    from betimes.slurm.hostlist import hostnames

    names = [node.name for node in job.nodes]
    wanted = _number(asked, "nodes", 1)
    if wanted > len(names):
        raise InputError(f"--nodes={asked['nodes']}: the job has {len(names)}; write --nodes={len(names)}")
    if "nodelist" not in asked:
        return list(range(len(names)))
    found: list[int] = []
    for name in hostnames(asked["nodelist"]):
        is_here = name in ("localhost", socket.gethostname()) and name not in names
        same = [number for number, each in enumerate(names) if each == (names[0] if is_here else name)]
        left = [number for number in same if number not in found]
        if not same:
            raise InputError(f"--nodelist={asked['nodelist']}: the job is on {','.join(names)}; leave it out")
        found += left[:1]
    return found


def _counts(asked: Mapping[str, str], there: int, of_job: int) -> list[int]:
    """How many tasks each node of the step gets; there: of how many nodes it may be.

    Tasks are spread evenly; without --ntasks as many as the job has on those nodes.
    """
    per_node = _number(asked, "ntasks-per-node", 0)
    nodes = min(there, _number(asked, "nodes", there))
    if "ntasks" not in asked:
        if per_node:
            return [per_node] * nodes
        return evenly(int(os.environ.get("SLURM_NTASKS", of_job)), of_job)[:nodes]
    tasks = _number(asked, "ntasks", 1)
    least = -(-tasks // per_node) if per_node else 1
    if least > nodes:
        raise InputError(
            f"--ntasks={tasks}: {nodes} nodes of {per_node} tasks have no room for them; ask for fewer"
        )
    if "nodes" not in asked:
        nodes = least if per_node else nodes
    return evenly(tasks, min(nodes, tasks))


def _gpus(asked: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        if name in asked:
            try:
                return (gres if name == "gres" else gpu_number)(asked[name])[0]
            except ValueError as error:
                raise InputError(f"--{name}: {error}") from None
    return None


def _taken(
    asked: Mapping[str, str],
    job: Allocation,
    may_be: Sequence[int],
    cpus: Sequence[int],
    gpus: Sequence[int] | None,
) -> tuple[int, list[Node], list[list[int]] | None]:
    """The step's number, its nodes and their GPUs, once as many cores and GPUs are free on so many nodes.

    What is taken is locked by open files, so that it is free when the step's last process on this machine has ended.
    """
    folder = Path(os.environ["BETIMES_RUN_DIR"], FOLDER)
    folder.mkdir(exist_ok=True)
    is_within_step = "SLURM_STEP_ID" in os.environ  # which has taken what it needs
    shares = "overlap" in asked or "overcommit" in asked or is_within_step or not job.cores
    of_node = "the job" if len(job.nodes) == 1 else "a node of the job"
    for kind, most, has in (
        ("processors", 0 if shares else max(cpus), job.cores),
        ("GPUs", max(gpus or [0]), job.gpus),
    ):
        if most > has:
            raise InputError(
                f"more {kind} requested than permitted: {most}, and {of_node} has {has}; ask for more in the job, or "
                "for less here (--overlap to share cores)"
            )

    def wanted(node: int, at: int) -> list[tuple[list[str], int]]:
        cores = [] if shares else [([f"core-{node}-{core}" for core in range(job.cores)], cpus[at])]
        return cores + (
            [] if gpus is None else [([f"gpu-{node}-{gpu}" for gpu in range(job.gpus)], gpus[at])]
        )

    reported = False
    while True:
        with (folder / "step").open("a+") as counter:
            fcntl.flock(counter, fcntl.LOCK_EX)
            locks: list[int] = []
            chosen: list[Node] = []
            devices: list[list[int]] = []
            for node in may_be:
                found = (
                    None
                    if len(chosen) == len(cpus)
                    else _locked(folder, wanted(node, len(chosen)), locks, alone=not is_within_step)
                )
                if found is not None:
                    chosen.append(job.nodes[node])
                    devices += [] if gpus is None else [[int(name.rpartition("-")[2]) for name in found[-1]]]
            if len(chosen) == len(cpus):
                counter.seek(0)
                number = int(counter.read() or "0")
                counter.truncate(0)
                counter.write(str(number + 1))
                return number, chosen, None if gpus is None else devices
            for lock in locks:
                os.close(lock)
        if not reported:
            reported = True
            report("srun", "step waits until others of this job are over")
        time.sleep(LOOK_S)


# --- its tasks on a machine ---


class Task(NamedTuple):
    """A task: its number in the step, and on its node, which has this number in the step."""

    number: int
    on_node: int
    node: int


class Step:
    """The tasks of a step on one machine of the job."""

    def __init__(self, plan: Plan, machine: int) -> None:
        self.plan, self.asked = plan, plan.asked
        self.files: dict[str, BinaryIO] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        places = [(node, on_node) for node, count in enumerate(plan.counts) for on_node in range(count)]
        self.tasks = [
            Task(number, on_node, node)
            for number, (node, on_node) in enumerate(places)
            if plan.nodes[node].machine == machine
        ]

    def environment(self, task: Task) -> dict[str, str]:
        """The variables of a task."""
        job, plan = os.environ, self.plan
        kept = {name: value for name, value in job.items() if name.startswith(("BETIMES_", "SLURM_"))}
        try:
            env = kept | exported(self.asked["export"], job) if "export" in self.asked else dict(job)
        except ValueError as error:
            raise InputError(f"--export: {error}") from None
        per_node, names = tasks_per_node(plan.counts), [node.name for node in plan.nodes]
        known = {
            "STEP_ID": plan.number, "STEPID": plan.number, "NTASKS": plan.tasks, "NPROCS": plan.tasks,
            "STEP_NUM_TASKS": plan.tasks, "STEP_NUM_NODES": len(names), "STEP_TASKS_PER_NODE": per_node,
            "TASKS_PER_NODE": per_node, "PROCID": task.number, "LOCALID": task.on_node, "NODEID": task.node,
            "NNODES": len(names), "STEP_NODELIST": ",".join(names),
        }  # fmt: skip
        if "cpus-per-task" in self.asked:
            known["CPUS_PER_TASK"] = self.asked["cpus-per-task"]
        node = plan.nodes[task.node]
        devices = node.own(_devices())
        machines = job.get("BETIMES_NODES", "").split(",")
        if job.get("WORLD_SIZE") == str(len(machines)):  # as the job has it; a script may have set its own
            known_to_torch = {"RANK": task.number, "LOCAL_RANK": task.on_node, "WORLD_SIZE": plan.tasks}
            env |= {name: str(value) for name, value in known_to_torch.items()}
        if "SLURMD_NODENAME" in job:
            env["SLURMD_NODENAME"] = node.name
        if plan.gpus is not None:
            own, each = [devices[gpu] for gpu in plan.gpus[task.node]], plan.gpus_each
            some = own if each is None else own[task.on_node * each : (task.on_node + 1) * each]
            env["CUDA_VISIBLE_DEVICES"] = ",".join(some)
        elif node.of > 1 and devices:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
        return env | {f"SLURM_{name}": str(value) for name, value in known.items()}

    def outputs(self, task: Task) -> tuple[BinaryIO | None, BinaryIO | None]:
        """The files of a task's standard output and error; null: those of this command."""
        out = self.file("output", task)
        return out, self.file("error", task) if "error" in self.asked else out

    def file(self, option: str, task: Task) -> BinaryIO | None:
        """That of one of the two; null: this command's. Raises InputError where it cannot be written."""
        pattern = self.asked.get(option, "all")
        if pattern in ("all", str(task.number)):
            return None
        job = os.environ
        number = job["BETIMES_JOB_ID"]
        known = {
            "j": number, "J": f"{number}.{self.plan.number}", "A": job.get("BETIMES_ARRAY_ID", number),
            "a": job.get("BETIMES_ARRAY_INDEX", "0"), "t": str(task.number), "n": str(task.node),
            "N": socket.gethostname().split(".")[0],
            "s": str(self.plan.number), "u": job.get("USER", ""), "x": job.get("BETIMES_JOB_NAME", ""),
        }  # fmt: skip
        is_other = pattern == "none" or pattern.isdecimal()
        path = os.devnull if is_other else str(Path(self.plan.folder, file_name(pattern, known)))
        if path not in self.files:
            appends = self.asked.get("open-mode") == "append" or job.get("BETIMES_ATTEMPT", "1") != "1"
            try:
                self.files[path] = Path(path).open("ab")  # noqa: SIM115
                if not appends and not is_other:
                    self.files[path].truncate(0)
            except OSError as error:
                raise InputError(
                    f"--{option}={pattern}: {path} cannot be written ({error.strerror})"
                ) from None
        return self.files[path]

    def run(self, command: list[str], news: queue.SimpleQueue[News] | None = None) -> int:
        """Start all tasks and wait for them; signals are passed on. The worst of their exit codes.

        news: brings the signals, where those that this process gets are of no concern to the tasks.
        """
        copies: list[threading.Thread] = []
        is_helped = news is not None
        coming: queue.SimpleQueue[News] = news or queue.SimpleQueue()
        lock = threading.Lock()

        def heed(number: int, _: object) -> None:
            if not is_helped:
                coming.put((None, number))

        # One that is handled here is as ever in a program that is started, and one that is ignored is not.
        before = {number: signal.signal(number, heed) for number in PASSED_ON}
        try:
            for task in self.tasks:
                process = self._started(command, task, copies, lock)
                self.processes.append(process)
                threading.Thread(target=_await, args=(task.number, process, coming), daemon=True).start()
            if is_helped:
                for number in PASSED_ON:
                    signal.signal(number, signal.SIG_IGN)
            self._feed()
            worst, left = 0, len(self.tasks)
            while left:
                number, code = coming.get()
                if number is None:
                    self.send(code)
                    continue
                left, worst = left - 1, max(worst, code)
                if code:
                    how = f"Exited with exit code {code}"
                    report("srun: error", f"{socket.gethostname()}: task {number}: {how}")
                if code and self.asked.get("kill-on-bad-exit", "0") != "0":
                    self.send(signal.SIGTERM)
            for copy in copies:
                copy.join()
        except BaseException:
            self.send(signal.SIGKILL)
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return worst

    def send(self, number: int) -> None:
        """Send a signal to the tasks that have not ended."""
        for process in self.processes:
            if process.poll() is None:
                with suppress(ProcessLookupError):  # it has ended just now
                    os.killpg(process.pid, number)

    def _started(
        self, command: list[str], task: Task, copies: list[threading.Thread], lock: threading.Lock
    ) -> subprocess.Popen[bytes]:
        is_labelled = "label" in self.asked
        files = self.outputs(task)
        given = [file or (subprocess.PIPE if is_labelled else None) for file in files]
        path = self.asked.get("input", "all")
        try:
            process = subprocess.Popen(
                command,
                cwd=self.plan.folder,
                env=self.environment(task),
                stdin=subprocess.PIPE if self._reads(task.number) else _opened(path),
                stdout=given[0],
                stderr=given[1],
                start_new_session=True,  # a signal to the job's group comes here, and is passed on once
            )
        except OSError as error:
            raise cannot_start(command, error) from None
        mark = f"{task.number:>{len(str(self.plan.tasks - 1))}}: ".encode()
        for source, to in ((process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer)):
            if source is not None:
                copies.append(threading.Thread(target=_copy, args=(source, to, mark, lock)))
                copies[-1].start()
        return process

    def _reads(self, task: int) -> bool:
        """Whether a task gets this command's standard input."""
        return self.asked.get("input", "all") in ("all", str(task)) and reads_input()

    def _feed(self) -> None:
        """Copy standard input to the tasks that read it, aside."""
        readers = [process.stdin for process in self.processes if process.stdin is not None]
        if readers:
            threading.Thread(target=_broadcast, args=(readers,), daemon=True).start()


def reads_input() -> bool:
    """Whether there is something to read on standard input: no terminal, and not nothing."""
    return not stat.S_ISCHR(os.fstat(0).st_mode)


def with_own_files(plan: Plan) -> Plan:
    """Let a file that all tasks of all machines write to be this process's output; the plan without it."""
    asked = dict(plan.asked)
    for option, numbers in (("output", (1,) if "error" in asked else (1, 2)), ("error", (2,))):
        if option in asked and not re.search(r"%\d*[tnN]", asked[option]):
            file = Step(plan, 0).file(option, Task(0, 0, 0))
            if file is not None and file.name != os.devnull:
                for number in numbers:
                    os.dup2(file.fileno(), number)
                del asked[option]
    return plan._replace(asked=asked)


def _opened(path: str) -> int | BinaryIO:
    """The standard input of a task that has its own."""
    if path in ("all", "none") or path.isdecimal():
        return subprocess.DEVNULL
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise InputError(f"--input={path}: cannot be read ({error.strerror})") from None


def _locked(
    folder: Path, wanted: Sequence[tuple[Sequence[str], int]], locks: list[int], *, alone: bool
) -> list[list[str]] | None:
    """Of each kind so many names; null: there are too few.

    alone: which no other process has locked; they are locked then, as long as this process and its successor live.
    locks: the descriptors that do so are added.
    """
    taken: list[int] = []
    found: list[list[str]] = []
    for there, count in wanted:
        names: list[str] = []
        for name in there:
            if len(names) == count:
                break
            descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if alone:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            os.set_inheritable(descriptor, True)
            taken.append(descriptor)
            names.append(name)
        found.append(names)
    if all(len(names) == count for names, (_, count) in zip(found, wanted, strict=True)):
        locks += taken
        return found
    for descriptor in taken:
        os.close(descriptor)
    return None


def _await(task: int, process: subprocess.Popen[bytes], news: queue.SimpleQueue[News]) -> None:
    code = process.wait()
    news.put((task, code if code >= 0 else BY_SIGNAL - code))


def _copy(source: BinaryIO, to: BinaryIO, mark: bytes, lock: threading.Lock) -> None:
    for line in source:
        with lock:
            to.write(mark + line + (b"" if line.endswith(b"\n") else b"\n"))
            to.flush()


def _broadcast(readers: list[BinaryIO]) -> None:
    while readers and (piece := os.read(0, 1 << 16)):
        for reader in [*readers]:
            try:
                reader.write(piece)
                reader.flush()
            except BrokenPipeError:
                readers.remove(reader)
    for reader in readers:
        try:
            reader.close()
        except BrokenPipeError:
            continue
