"""The executor of a Ray cluster: runs on its nodes, each under a supervisor that outlives the service."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from betimes.errors import Unavailable, Unknown
from betimes.service.executors.local import Around
from betimes.service.executors.log_files import LocalLog, LogReader
from betimes.service.executors.protocol import Launch, Listener, Place
from betimes.service.executors.ray.connection import ANSWER_S, Agents
from betimes.service.executors.ray.link import NodeLink
from betimes.service.executors.supervision.files import LOG
from betimes.service.scheduling.events import Ended, Report, RunId, Signalled, Started, Trouble


class RayExecutor:
    """Runs commands on the nodes of a cluster; a run on several nodes starts on all of them or ends on all of them.

    cpu_of: the cores that a node has for jobs. around: as that of `LocalExecutor`, on each node of a run. A node after
    `leave` is asked nothing more: the scheduler then drops its runs.
    """

    def __init__(
        self,
        listener: Listener,
        agents: Agents,
        cpu_of: Callable[[str], float],
        around: Around | None = None,
    ) -> None:
        self._listener, self._agents, self._cpu_of, self._around = listener, agents, cpu_of, around
        self._links: dict[str, NodeLink] = {}
        self._gone: set[str] = set()  # nodes that have left, whose names do not come back
        self._gangs: dict[RunId, Gang] = {}
        self._dropping: dict[int, set[asyncio.Task[None]]] = {}  # by job: kill the rest of its runs
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the protocol ---

    async def start(self, launch: Launch) -> None:
        """Start a run on all of its nodes, once nothing is left of the job's runs that were dropped."""
        if launch.run in self._gangs:
            return
        gang = self._gangs[launch.run] = Gang(launch, members(launch, self._address_of))
        if before := self._dropping.get(launch.run.job):
            task = asyncio.create_task(self._start_after(set(before), gang))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._begin(gang)

    async def signal(self, run: RunId, number: int, to: Signalled) -> None:
        """Send a signal to processes of a run, on every node."""
        for link in self._links_of(run):
            link.signal(run, number, to)

    async def stop(self, run: RunId, grace_s: float) -> None:
        """SIGTERM on every node, and SIGKILL when the grace period is over; each node's own supervisor sees to it."""
        for link in self._links_of(run):
            link.stop(run, grace_s)

    async def limit(self, run: RunId, time_limit_s: float) -> None:
        """Give a run another time limit, on every node."""
        for link in self._links_of(run):
            link.limit(run, time_limit_s)

    async def resize(self, run: RunId, units: int, places: tuple[Place, ...]) -> bool:
        """Notify a run on one node of its new units; False: it must be restarted, as on several nodes."""
        gang = self._gangs.get(run)
        nodes = {place.node for place in places}
        if gang is None or len(gang.members) > 1 or nodes != set(gang.members):
            return False
        link = self._link_to(nodes.pop())
        return link is not None and await link.resize(run, units, places)

    async def drop(self, run: RunId) -> None:
        """A node of a run is lost: kill the run on the others. Its job starts again once that is done."""
        gang = self._gangs.pop(run, None)
        left = [link for node in gang.left if (link := self._links.get(node))] if gang is not None else []
        if not left:
            return
        task = asyncio.create_task(self._kill(run, left))
        dropping = self._dropping.setdefault(run.job, set())
        dropping.add(task)
        task.add_done_callback(lambda done: self._dropped(run.job, done))

    async def adopt(self, launches: Sequence[Launch]) -> None:
        """After a restart of the service: report each run's fate, and start those that never were."""
        for launch in launches:
            if launch.run in self._gangs:
                continue
            gang = self._gangs[launch.run] = Gang(launch, members(launch, self._address_of))
            for node, member in gang.members.items():
                if (link := self._link_to(node)) is not None:
                    link.want(member)

    async def close(self) -> None:
        """Stop watching; runs go on. The agents of nodes on which nothing runs are ended."""
        tasks = [*self._tasks, *(task for tasks in self._dropping.values() for task in tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node, link in self._links.items():
            idle = not link.has_runs
            await link.close()
            if idle:
                with contextlib.suppress(Unavailable):  # then Ray has ended it
                    await self._agents.release(node)
        self._links.clear()
        self._gangs.clear()

    # --- output ---

    async def open_log(
        self, folder: str, nodes: Sequence[str], rank: int, tail: int | None, name: str = LOG
    ) -> LogReader:
        """The output, or another file, of a run that had this folder, on one of its nodes, which are in the order of
        their ranks.

        Raises Unknown for a rank that it did not have, and where the node is gone and the log is on no shared disk.
        """
        if rank and rank >= len(nodes):
            raise Unknown(f"there is no rank {rank}; the job's last rank is {len(nodes) - 1}")
        node = nodes[rank] if nodes else ""
        path = f"{folder_of(folder, rank, max(len(nodes), 1))}/{name}"
        if node in self._links:
            return RemoteLog(self._agents, node, path, tail)
        if await asyncio.to_thread(Path(path).exists):
            return LocalLog(Path(path), tail)
        raise Unknown(f"its output is on node {node}, which has left the cluster ({path} there)")

    # --- nodes ---

    def join(self, node: str) -> None:
        """Start the agent of a node before anything is to run there."""
        self._link_to(node)

    async def failure_of(
        self, node: str, command: str, environment: Mapping[str, str], limit_s: float, name: str, mark: str
    ) -> str | None:
        """Run a command of the operator's on a node; why it failed, as `commands.failure_of`.

        Raises Unavailable where the node does not answer.
        """
        try:
            async with asyncio.timeout(limit_s + ANSWER_S):
                return await self._agents.call(node, "failure_of", command, environment, limit_s, name, mark)
        except TimeoutError:
            raise Unavailable("its agent does not answer") from None

    async def leave(self, node: str) -> None:
        """A node has left the cluster, and nothing runs there."""
        self._gone.add(node)
        link = self._links.pop(node, None)
        if link is not None:
            await link.close()

    def _address_of(self, node: str) -> str:
        try:
            return self._agents.address_of(node)
        except Unavailable:  # it left while the service was down, which is reported next
            return node

    def _link_to(self, node: str) -> NodeLink | None:
        """The link to a node; null: it has left, and its runs are about to be dropped."""
        if node in self._gone:
            return None
        if node not in self._links:
            self._links[node] = NodeLink(node, self._agents, self._hear, self._cpu_of(node), self._around)
        return self._links[node]

    def _links_of(self, run: RunId) -> list[NodeLink]:
        gang = self._gangs.get(run)
        return [link for node in gang.left if (link := self._links.get(node))] if gang is not None else []

    # --- runs ---

    def _begin(self, gang: Gang) -> None:
        for node, member in gang.members.items():
            if (link := self._link_to(node)) is not None:
                link.start(member)

    async def _start_after(self, dropping: set[asyncio.Task[None]], gang: Gang) -> None:
        await asyncio.gather(*dropping, return_exceptions=True)
        if self._gangs.get(gang.launch.run) is gang:
            self._begin(gang)

    async def _kill(self, run: RunId, links: Sequence[NodeLink]) -> None:
        for link in links:
            link.stop(run, 0.0)
        await asyncio.gather(*(link.ended(run) for link in links))

    def _dropped(self, job: int, task: asyncio.Task[None]) -> None:
        dropping = self._dropping[job]
        dropping.discard(task)
        if not dropping:
            del self._dropping[job]

    def _hear(self, node: str, report: Report) -> None:
        """Take a node's report of its member of a run."""
        gang = self._gangs.get(report.run)
        if gang is None:  # it was dropped
            return
        if isinstance(report, Trouble):
            self._listener(report)
            return
        failed = gang.has_failed
        if isinstance(report, Started):
            gang.started.setdefault(node, report)
        else:
            gang.ended[node] = report
        if (begun := gang.begun()) is not None:
            self._listener(begun)
        if (over := gang.over()) is not None:
            del self._gangs[report.run]
            self._listener(over)
        elif gang.has_failed and not failed:
            grace_s = gang.launch.grace_s if gang.is_reported else 0.0
            for link in self._links_of(report.run):
                link.stop(report.run, grace_s)


class RemoteLog:
    """A log on a node of the cluster: from its oldest line, or `tail` lines before the end.

    While the node does not answer there is nothing to read. The agent keeps the place; a restarted one receives the
    number of bytes read.
    """

    def __init__(self, agents: Agents, node: str, path: str, tail: int | None) -> None:
        self._agents, self._node, self._path, self._tail = agents, node, path, tail
        self._reader = secrets.token_hex(8)
        self._read_bytes = 0

    async def read(self) -> bytes:
        """Up to 64 KiB of the next bytes."""
        try:
            chunk: bytes = await self._agents.call(
                self._node, "read_log", self._reader, self._path, self._tail, self._read_bytes
            )
        except Unavailable:
            return b""
        self._read_bytes += len(chunk)
        return chunk

    def close(self) -> None:
        """The agent closes the file when others are read."""


# --- a run on several nodes: its command is started once on each, and the run is all of them together ---

FIRST_PORT, PORTS = 10_000, 20_000  # below those that Linux gives to outgoing connections

VARIABLES = {
    "RANK": "the number of this node among those of the job: 0, 1, ...; 0 is the first",
    "WORLD_SIZE": "how many nodes the job has: its command is started once on each",
    "LOCAL_RANK": "always 0: one process a node is started",
    "MASTER_ADDR": "the address of the node of rank 0",
    "MASTER_PORT": "a port there, for the processes to meet; of the job's own",
    "BETIMES_NODES": "the addresses of all nodes, in the order of their ranks, separated by commas",
    "BETIMES_NODE_UNITS": "the units that the job holds on each node, in the same order",
    "BETIMES_LOCAL_UNITS": "the units that it holds on this node",
}
"""Variables of each process of a run on a cluster, beside `launches.VARIABLES`."""


def members(launch: Launch, address_of: Callable[[str], str]) -> dict[str, Launch]:
    """The launch on each node, by node, in the order of ranks.

    address_of: the address at which other nodes reach a node. On one node the launch keeps the run's folder; on
    several, each gets the folder of its rank in it.
    """
    units: dict[str, int] = {}
    for place in launch.places:
        units[place.node] = units.get(place.node, 0) + place.units
    addresses = [address_of(node) for node in units]
    shared = {
        "WORLD_SIZE": str(len(units)),
        "LOCAL_RANK": "0",
        "MASTER_ADDR": addresses[0],
        "MASTER_PORT": str(FIRST_PORT + launch.run.job % PORTS),
        "BETIMES_NODES": ",".join(addresses),
        "BETIMES_NODE_UNITS": ",".join(map(str, units.values())),
    }
    spans = launch.env.get("SLURM_NNODES") == str(sum(units.values()))  # each unit is a node of the script
    if "SLURM_JOB_NODELIST" in launch.env:  # scripts take the first for the address at which processes meet
        each = [address for address, held in zip(addresses, units.values(), strict=True) for _ in range(held)]
        shared["SLURM_JOB_NODELIST"] = ",".join(each if spans else addresses)
        shared["SLURM_NODELIST"] = ",".join(addresses)
    unit = launch.gpu, launch.cpu, launch.memory_gib
    needed = {node: launch.unit_on.get(node, unit) for node in units}
    return {
        node: replace(
            launch,
            gpu=needed[node][0],
            cpu=needed[node][1],
            memory_gib=needed[node][2],
            env={**launch.env, **shared, "RANK": str(rank), "BETIMES_LOCAL_UNITS": str(held)},
            units=held,
            places=(Place(node, held),),
            folder=folder_of(launch.folder, rank, len(units)),
            output=_file_of(launch.output, rank, spans),
            error=_file_of(launch.error, rank, spans),
            control=launch.control if len(units) == 1 else f"{launch.control}-{rank}",
        )
        for rank, (node, held) in enumerate(units.items())
    }


def _file_of(path: str | None, rank: int, is_one: bool) -> str | None:
    """The output file of a rank: the job's own for the first node, so that none is written by two.

    is_one: all that the job writes comes there.
    """
    return path if path is None or rank == 0 else None if is_one else f"{path}.{rank}"


def folder_of(folder: str, rank: int, size: int) -> str:
    """The folder of a rank of a run on so many nodes."""
    return folder if size == 1 else f"{folder}/rank-{rank}"


@dataclass
class Gang:
    """The members of a run and what has been reported of each, by node."""

    launch: Launch
    members: Mapping[str, Launch]
    started: dict[str, Started] = field(default_factory=dict[str, Started])
    ended: dict[str, Ended] = field(default_factory=dict[str, Ended])
    is_reported: bool = False  # start reported

    @property
    def left(self) -> list[str]:
        """The nodes without a reported end."""
        return [node for node in self.members if node not in self.ended]

    @property
    def has_failed(self) -> bool:
        """Whether a member has failed, so that the others work for nothing."""
        return any(not _is_well(one) for one in self.ended.values())

    def begun(self) -> Started | None:
        """The report of the run's start, once: when all members have started, or are over."""
        if self.is_reported or not self.started or len(self.started | self.ended) < len(self.members):
            return None
        self.is_reported = True
        first = max(self.started.values(), key=lambda one: one.at_s)
        adopted = all(one.adopted for one in self.started.values())
        return replace(first, adopted=adopted)

    def over(self) -> Ended | None:
        """The report of the run's end, once nothing of it is left: that of the first failed member."""
        if self.left:
            return None
        ends = [self.ended[node] for node in self.members]
        failed = sorted((one for one in ends if not _is_well(one)), key=lambda one: one.at_s)
        # Members stopped because another had failed explain less than that one.
        chosen = next((one for one in failed if one.why != "stopped"), failed[0] if failed else ends[0])
        if len(ends) == 1:
            return chosen
        where = next(rank for rank, node in enumerate(self.members) if self.ended[node] is chosen)
        message = chosen.message
        if failed:
            detail = f": {message}" if message else ""
            message = f"rank {where} of {len(ends)}, on node {list(self.members)[where]}{detail}"
        why = chosen.why
        if why == "prolog-failed" and self.started and not self.launch.may_restart:
            why = "start-failed"  # its command has begun on other nodes, and may not begin again
        return replace(
            chosen,
            why=why,
            at_s=max(one.at_s for one in ends),
            message=message,
            max_rss_gib=max((one.max_rss_gib for one in ends if one.max_rss_gib is not None), default=None),
            cpu_s=sum(one.cpu_s or 0.0 for one in ends),
            log_lost_bytes=sum(one.log_lost_bytes or 0 for one in ends),
            faults=tuple(fault for one in ends for fault in one.faults),
        )


def _is_well(end: Ended) -> bool:
    return end.why == "exited" and end.exit_code == 0
