"""From a job's run to an executor's launch."""

from __future__ import annotations

import hashlib
import math
import os
import socket
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from betimes.service.access.unix_users import Account, Owners
from betimes.service.executors.protocol import Launch, Place
from betimes.service.scheduling.events import RunId
from betimes.service.scheduling.job import Job, Run
from betimes.service.scheduling.node import Node
from betimes.service.spec.environments import wrapped
from betimes.service.spec.sbatch import evenly, tasks_per_node
from betimes.service.spec.spelling import file_name
from betimes.service.uploads.kept import archive_path

IssueToken = Callable[[int, int], str]

KEPT = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables passed on from the service; jobs name others in `env`."""
SHARED = ("LANG", "LC_ALL", "TZ")
"""Those passed on to jobs of other Unix users, to whom the executor gives their own in place of the others."""

VARIABLES = {
    "BETIMES_JOB_ID": "the job's number",
    "BETIMES_JOB_NAME": "its name",
    "BETIMES_ARRAY_ID": "the number of the first job of its array; only in an array",
    "BETIMES_ARRAY_INDEX": "its index in the array; only in an array",
    "BETIMES_UNITS": "how many units it holds",
    "BETIMES_NODE_NAMES": "the names of its nodes, as `betimes nodes` shows them, in the order of ranks, with commas",
    "BETIMES_ATTEMPT": "1 in its first run, 2 in the next, ...",
    "BETIMES_CHECKPOINT_DIR": "a folder that all of its runs share: what it resumes from belongs there",
    "BETIMES_RUN_DIR": "a folder of this run alone, empty when it begins",
    "BETIMES_RUN_ID": "of this run alone, in every service that there ever is",
    "BETIMES_GRACE_S": "seconds from SIGTERM until it is killed",
    "BETIMES_CPUS": "the cores that it is pinned to, as in `0,1`; only where it is",
    "CUDA_VISIBLE_DEVICES": "its GPUs; empty for none; only on nodes that have some",
    "BETIMES_URL": "where the service listens",
    "BETIMES_STATE": "the service's state directory, by which `betimes` finds its token where it may be read",
    "BETIMES_SOCKET": "where `betimes` needs no token: a Unix socket; only in a job of another user than the service's",
    "BETIMES_RUN_TOKEN": "allows this run to report its progress, and nothing else",
}
"""A job's variables about itself; the executor adds cores and GPUs."""


class Launches:
    """Makes launches of runs: folders and environments. log_id: of the log that they are in."""

    def __init__(
        self, state: Path, log_id: str, issue_token: IssueToken, environ: Mapping[str, str] = os.environ
    ) -> None:
        self.state, self.log_id, self.issue_token = state, log_id, issue_token
        self.kept = {name: environ[name] for name in KEPT if name in environ}
        self.owners = Owners(state, all_as_service=True)  # where nothing else is known
        self.url = ""  # until the service listens
        self.socket: Path | None = None  # for the users of this machine

    @property
    def runs(self) -> Path:
        """The parent of all jobs' folders, named by number."""
        return self.state / "runs"

    def folder(self, job: int, number: int) -> Path:
        """The folder of a run: its log, its exit status."""
        return self.runs / str(job) / str(number)

    def of(self, job: Job, nodes: Mapping[str, Node], speed: float = 1.0) -> Launch:
        """The launch of a job's present run on these nodes; speed: of one that only takes time."""
        run, spec = job.run, job.spec
        if run is None:
            raise ValueError(f"internal: job {job.job_id} has no run")
        folder = self.folder(job.job_id, run.number)
        user = self.owners.unix_user(job.user)
        checkpoints = spec.checkpoint_dir or str(self.state / "checkpoints" / str(job.job_id))
        env = {
            **self.kept_for(user),
            **spec.env,
            "BETIMES_JOB_ID": str(job.job_id),
            "BETIMES_JOB_NAME": spec.title,
            "BETIMES_UNITS": str(run.units),
            "BETIMES_NODE_NAMES": ",".join(dict.fromkeys(name for name, _ in run.places)),
            "BETIMES_ATTEMPT": str(run.number),
            "BETIMES_CHECKPOINT_DIR": checkpoints,
            "BETIMES_GRACE_S": f"{spec.grace_s:g}",
            "BETIMES_URL": self.url,
            "BETIMES_STATE": str(self.state),
            "BETIMES_RUN_TOKEN": self.issue_token(job.job_id, run.number),
        }
        if user is not None and self.socket is not None:
            env["BETIMES_SOCKET"] = str(self.socket)
        if job.array_id is not None:
            env |= {"BETIMES_ARRAY_ID": str(job.array_id), "BETIMES_ARRAY_INDEX": str(job.array_index)}
        if "SLURM_SUBMIT_DIR" in spec.env:
            # A batch script of Slurm; others might take it for a sign of Slurm.
            env |= _slurm_variables(job, run, nodes)
        unit_on = {
            node: needed
            for node, _ in run.places
            if spec.demand and (needed := spec.unit.on(nodes[node].family)) is not None
        }
        gpu, cpu, memory_gib = next(iter(unit_on.values()), spec.unit.everywhere)
        identity = self._identity(job, run.number)
        return Launch(
            run=RunId(job.job_id, run.number),
            command=wrapped(spec.command, spec.conda, spec.venv, spec.image, memory_gib * run.units),
            workdir=spec.workdir or "/",
            env=env,
            units=run.units,
            places=tuple(Place(node, units) for node, units in run.places),
            cpu=cpu,
            memory_gib=memory_gib,
            gpu=gpu,
            unit_on=unit_on,
            grace_s=spec.grace_s,
            folder=str(folder),
            checkpoint_dir=checkpoints,
            # Not in the run's folder, which the job knows: a program that reads all files there would hang on it,
            # and swallow the service's requests.
            control=str(self.state / "control" / f"{job.job_id}-{run.number}-{identity[:8]}"),
            identity=identity,
            time_limit_s=job.run_limit_s,
            warn_s=spec.warn_s,
            archive=str(archive_path(self.state, spec.upload)) if spec.upload is not None else None,
            speed=speed,
            estimate_s=None if math.isnan(spec.runtime_estimate_s) else spec.runtime_estimate_s,
            max_units=spec.max_units,
            stdin=spec.stdin,
            warn_signal=spec.warn_signal,
            output=_file(spec.output, job, run),
            error=_file(spec.error, job, run),
            may_restart=spec.requeue,
            user=user,
            keeps_checkpoints=spec.checkpoint_dir is None,
        )

    def kept_for(self, user: str | None) -> dict[str, str]:
        """The part of the service's environment for processes of a Unix user; null: of the service's."""
        return {name: text for name, text in self.kept.items() if user is None or name in SHARED}

    def environment_of(self, owner: Account | None) -> dict[str, str]:
        """The environment of a command of settings or jobs, as whom it runs; null: the service's user.

        It has none of the service's secrets.
        """
        own = {} if owner is None else owner.variables
        return {**own, **self.kept_for(owner and owner.name), "BETIMES_STATE": str(self.state)}

    def _identity(self, job: Job, number: int) -> str:
        """A run's identity. A log restored from a copy gives out numbers again, but at other instants."""
        submitted_at = job.submitted_at if job.logged_at is None else job.logged_at
        run = f"{self.log_id} {job.job_id} {submitted_at!r} {number}"
        return hashlib.sha256(run.encode("ascii")).hexdigest()[:32]


def _slurm_variables(job: Job, run: Run, nodes: Mapping[str, Node]) -> dict[str, str]:
    """The variables of batch scripts of Slurm about the run; `sbatch` of `spec` has set those that are known before it.

    Nodes are named so that other programs can reach them: this machine by its host name. Where a script asks for
    several nodes each unit is one, and a machine is named once for each that it has; but once in what launchers of MPI
    read, who refuse or pass over what stands twice.
    """
    here, number = socket.gethostname(), str(job.job_id)
    is_here = {name for name, node in nodes.items() if node.machine.kind == "local"}
    spans = "SLURM_NNODES" in job.spec.env
    each = [
        here if node in is_here else node for node, units in run.places for _ in range(units if spans else 1)
    ]
    names, count = ",".join(each), str(len(each))
    cores = str(max(1, math.floor(job.spec.cpu * (1 if spans else run.units))))
    known = {
        "JOB_ID": number,
        "JOBID": number,
        "JOB_NAME": job.spec.title,
        "JOB_USER": job.user,
        "JOB_NODELIST": names,
        "NODELIST": names,
        "JOB_NUM_NODES": count,
        "NNODES": count,
        "JOB_CPUS_PER_NODE": cores,
        "CPUS_ON_NODE": cores,
        **dict.fromkeys(("PROCID", "LOCALID", "NODEID", "GTIDS"), "0"),
    }
    if spans:
        held: dict[str, int] = {}
        for node, units in run.places:
            held[node] = held.get(node, 0) + units
        asked = job.spec.env.get("SLURM_NTASKS", count)
        tasks = iter(evenly(int(asked) if asked.isdecimal() else len(each), len(each)))
        known |= {
            "NODELIST": ",".join(here if node in is_here else node for node in held),
            "TASKS_PER_NODE": tasks_per_node(sum(islice(tasks, units)) for units in held.values()),
            "JOB_CPUS_PER_NODE": tasks_per_node(int(cores) * units for units in held.values()),
        }
    if job.array_id is not None:
        known |= {"ARRAY_JOB_ID": str(job.array_id), "ARRAY_TASK_ID": str(job.array_index)}
    if run.number > 1:
        known["RESTART_COUNT"] = str(run.number - 1)
    return {f"SLURM_{name}": value for name, value in known.items()}


def _file(pattern: str | None, job: Job, run: Run) -> str | None:
    """A file's name by a pattern such as `%x-%4j.out`."""
    if pattern is None:
        return None
    number, first = str(job.job_id), str(job.array_id or job.job_id)
    known = {
        "j": number, "J": number, "A": first, "a": str(job.array_index or 0), "N": run.places[0][0],
        "n": "0", "t": "0", "s": "batch", "u": job.user, "x": job.spec.title.replace("/", "_"),
    }  # fmt: skip
    return file_name(pattern, known)
