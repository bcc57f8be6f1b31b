"""Jobs that run on a real Ray cluster, while the service's clock is virtual: the schedule is the twin's.

A job's command waits until it is told to end. The virtual world says when that is; the clock stands still until Ray
has reported that a run has begun, or that it has ended, and the service hears what Ray has reported.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup
from betimes.service.executors.protocol import Launch
from betimes.service.executors.ray import joining
from betimes.service.executors.ray.joining import JoinedCluster, join
from betimes.service.executors.virtual import VirtualWorld
from betimes.service.scheduling.events import Ended, Report, RunId, Started
from betimes.service.spec.job_spec import JobSpec
from tests.service.executors.ray.served import PATIENCE_S, RayOnThisMachine, until
from tests.service.same_as_twin.test_specifications import assert_alike, specifications

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings

T = TypeVar("T")
CORES = (4, 2)  # of the nodes beside the head, which has one
NODES = Cluster("on-ray", tuple(NodeGroup(f"with-{cores}", 1, 0, cores, 16) for cores in (*CORES, 1)))


class RunsOnRay:
    """The executor of a cluster in a thread of its own, so that whoever calls it can wait for what Ray reports."""

    def __init__(self, address: str, folder: Path) -> None:
        self.folder = folder
        self._begun: dict[RunId, Future[Started]] = {}
        self._over: dict[RunId, Future[Ended]] = {}
        self._ranks: dict[RunId, range] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(joining, "OTHERS_S", PATIENCE_S)  # all nodes at once
            self._cluster: JoinedCluster = self._wait(join(address, 1.0, False, str(folder)))
        cores = {machine.name: machine.cpu for machine in self._cluster.machines}
        self._node_of = {f"with-{cpu:g}-0": name for name, cpu in cores.items()}
        self._executor = self._cluster.executor(self._hear, cores.__getitem__, None)

    def begin(self, launch: Launch) -> Started:
        """Start a run where the service has it; returns what Ray reports once all of its processes run."""
        self._begun[launch.run], self._over[launch.run] = Future(), Future()
        end = self._end_of(launch.run)
        waits = 'trap "touch $0.$RANK.told" TERM; touch "$0.$RANK"; until [ -e "$0" ]; do sleep 0.1; done'
        places = tuple(replace(place, node=self._node_of[place.node]) for place in launch.places)
        self._wait(self._executor.start(replace(launch, command=("sh", "-c", waits, end), places=places)))
        started = self._begun[launch.run].result(PATIENCE_S)
        self._ranks[launch.run] = range(len({place.node for place in places}))
        for rank in self._ranks[launch.run]:
            until(Path(f"{end}.{rank}").exists)  # from then on it takes its time when it is stopped
        return started

    def stop(self, run: RunId) -> None:
        """Tell a run to leave, which takes its time; each of its processes has heard it then, and none ends before."""
        self._wait(self._executor.stop(run, PATIENCE_S))
        for rank in self._ranks[run]:
            until(Path(f"{self._end_of(run)}.{rank}.told").exists)

    def end(self, run: RunId) -> Ended:
        """Let a run end; returns what Ray reports."""
        Path(self._end_of(run)).touch()
        return self._over[run].result(PATIENCE_S)

    def close(self) -> None:
        """Leave the cluster."""
        self._wait(self._executor.close())
        self._wait(self._cluster.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _end_of(self, run: RunId) -> str:
        return str(self.folder / f"{run.job}-{run.number}.end")

    def _hear(self, report: Report) -> None:
        if isinstance(report, Started):
            self._begun[report.run].set_result(report)
        elif isinstance(report, Ended):
            self._over[report.run].set_result(report)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)


class WorldOnRay(VirtualWorld):
    """Runs take what the virtual world says, and are processes on the cluster; their reports are Ray's."""

    def __init__(self, runs: RunsOnRay, *args: Any) -> None:
        super().__init__(*args)
        self.runs, self.started, self.ended = runs, list[Launch](), list[Ended]()

    def start(self, launch: Launch, now_at: float) -> None:
        super().start(launch, now_at)
        self.started.append(launch)
        self.reports[-1] = replace(self.runs.begin(launch), at_s=now_at)

    def stop(self, run: RunId, grace_s: float, now_at: float) -> None:
        super().stop(run, grace_s, now_at)
        self.runs.stop(run)

    def advance(self, now_at: float) -> list[Report]:
        reports = super().advance(now_at)
        for at, report in enumerate(reports):
            if isinstance(report, Ended):
                ended = self.runs.end(report.run)
                self.ended.append(ended)
                reports[at] = replace(ended, at_s=report.at_s)
        return reports


@pytest.fixture(scope="module")
def ray() -> Iterator[RayOnThisMachine]:
    ray = RayOnThisMachine()
    for cores in CORES:
        ray.add(cores)
    yield ray
    ray.end()


@pytest.fixture(scope="module")
def joined(ray: RayOnThisMachine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunsOnRay]:
    runs = RunsOnRay(ray.address, tmp_path_factory.mktemp("runs"))
    yield runs
    runs.close()


@pytest.fixture
def runs(joined: RunsOnRay, tmp_path: Path) -> RunsOnRay:
    joined.folder = tmp_path
    return joined


def jobs(count: int) -> tuple[Workload, list[JobSpec]]:
    """Jobs of one to seven cores, the widest on all nodes at once, submitted faster than these run them."""
    rng = np.random.default_rng(3)
    units = rng.choice([1, 2, 3, 5, 7], count, p=[0.4, 0.25, 0.15, 0.1, 0.1])
    workload = Workload.from_columns(
        submit_s=np.cumsum(rng.exponential(200.0, count)).round(1),
        work_s=(units * rng.lognormal(5.5, 1.0, count)).round() + 1,
        max_units=units,
    )
    asked = {"gpu": 0.0, "cpu": 1.0, "memory_gib": 0.0, "units_per_task": "spread"}
    return workload, [spec.model_copy(update=asked) for spec in specifications(workload, 2)]


@pytest.mark.parametrize("policy", ["easy", "fitgpp"])
def test_processes_on_a_cluster_follow_the_twins_schedule(
    policy: str, runs: RunsOnRay, tmp_path: Path
) -> None:
    worlds = list[WorldOnRay]()

    def world_of(*args: Any) -> VirtualWorld:
        worlds.append(WorldOnRay(runs, *args))
        return worlds[-1]

    workload, specs = jobs(40)
    assert_alike(specs, workload.submit_s, NODES, policy, tmp_path, world_of=world_of)
    (world,) = worlds
    assert max(len({place.node for place in launch.places}) for launch in world.started) == 3
    stopped = [ended for ended in world.ended if ended.why == "stopped"]
    assert len(world.ended) == len(world.started) == len(specs) + len(stopped)
    assert bool(stopped) == (policy == "fitgpp")
    assert {ended.exit_code for ended in world.ended} == {0}
