"""A run on several nodes: its command is started once on each, and the run is all of them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from betimes.service.executors.protocol import Launch, Place
from betimes.service.scheduling.run_reports import Ended, Started

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
            output=_file_of(launch.output, rank),
            error=_file_of(launch.error, rank),
            control=launch.control if len(units) == 1 else f"{launch.control}-{rank}",
        )
        for rank, (node, held) in enumerate(units.items())
    }


def _file_of(path: str | None, rank: int) -> str | None:
    """The output file of a rank: the job's own for the first node, so that none is written by two."""
    return path if path is None or rank == 0 else f"{path}.{rank}"


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
    is_told: bool = False  # start reported

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
        if self.is_told or not self.started or len(self.started | self.ended) < len(self.members):
            return None
        self.is_told = True
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
            said = f": {message}" if message else ""
            message = f"rank {where} of {len(ends)}, on node {list(self.members)[where]}{said}"
        return replace(
            chosen,
            at_s=max(one.at_s for one in ends),
            message=message,
            max_rss_gib=max((one.max_rss_gib for one in ends if one.max_rss_gib is not None), default=None),
            cpu_s=sum(one.cpu_s or 0.0 for one in ends),
            log_lost_bytes=sum(one.log_lost_bytes or 0 for one in ends),
        )


def _is_well(end: Ended) -> bool:
    return end.why == "exited" and end.exit_code == 0
