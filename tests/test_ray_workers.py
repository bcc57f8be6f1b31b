"""Tasks on a Ray cluster of two nodes: the same answers as here, by as many workers as there are processors free."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from betimes_papers import reproduce
from betimes_papers.experiment import Workers
from betimes_papers.pcs import fig8

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.errors import InputError
from betimes.foresight.sizing import size_fleet
from betimes.processes import Do, Say
from betimes.ray_workers import RayWorkers
from tests.cli.conftest import program
from tests.service.executors.ray.served import RayOnThisMachine

ray = pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings

CORES = 3


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A head with one core and a node with two, which programs find by RAY_ADDRESS; this process has joined it."""
    of_tests = RayOnThisMachine()
    of_tests.add(CORES - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", of_tests.address)
        ray.init(log_to_driver=False)
        yield
        ray.shutdown()
    of_tests.end()


@pytest.fixture(autouse=True)
def all_processors_are_free(cluster: None) -> None:
    """Ray counts the processors of workers that have ended as taken for some seconds more."""
    until = time.monotonic() + 60.0
    while ray.available_resources().get("CPU", 0.0) < CORES:
        assert time.monotonic() < until, ray.available_resources()
        time.sleep(0.1)


def twice(pause_s: float) -> Do:
    def do(task: int, say: Say) -> int:
        say(task)
        time.sleep(pause_s)
        if task < 0:
            raise InputError("a task that cannot be done")
        return 2 * task

    return do


def answers(tasks: Sequence[int], size: int | None = None) -> list[int]:
    with RayWorkers(twice, (0.01,), size) as workers:
        return [answer for _, answer in sorted(workers.answers(tasks))]


class Others:
    """Someone else's actors, which hold processors."""

    def __init__(self, cores: int) -> None:
        holder = ray.remote(Holder).options(num_cpus=1)
        self.actors = [holder.remote() for _ in range(cores)]
        ray.get([actor.holds.remote() for actor in self.actors])

    def leave(self) -> None:
        for actor in self.actors:
            ray.kill(actor)


class Holder:
    def holds(self) -> bool:
        return True


def test_there_are_as_many_workers_as_processors_and_what_a_task_raises_is_raised_here(
    capsys: pytest.CaptureFixture[str],
) -> None:
    heard = list[tuple[int, int]]()
    with RayWorkers(twice, (0.01,), None) as workers:
        found = sorted(workers.answers(range(5), lambda number, what: heard.append((number, what))))
        assert [answer for _, answer in found] == [0, 2, 4, 6, 8]
        with pytest.raises(InputError, match="a task that cannot be done"):
            list(workers.answers([1, -1]))
    assert sorted(heard) == [(number, number) for number in range(5)]
    said = "3 workers, one for each that is free: 0 of 3 processors are taken"
    assert f"betimes: on the Ray cluster: {said}\n" in capsys.readouterr().err


def test_processors_that_others_have_are_left_to_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Where they have all, one worker waits for the first."""
    others = [Others(2)]
    assert answers(range(3), 9) == [0, 2, 4]
    assert "1 worker, one for each that is free: 2 of 3 processors are taken" in capsys.readouterr().err
    others.append(Others(1))
    leaving = threading.Timer(5.0, others[0].leave)
    leaving.start()
    assert answers(range(3)) == [0, 2, 4]
    assert "1 worker, which waits for one: 3 of 3 processors are taken" in capsys.readouterr().err
    leaving.join()
    others[1].leave()


def test_an_address_that_does_not_answer() -> None:
    said = program("compare", "sample:tiny", "--policies", "srsf,fifo", "--ray", RAY_ADDRESS="127.0.0.1:9")
    assert said.code == 2
    assert said.err.startswith("betimes: RAY_ADDRESS 127.0.0.1:9: nothing answers there (Connection refused)")


def test_compare_writes_the_same(tmp_path: Path) -> None:
    words = ("compare", "demo:jobs=120", "--policies", "srsf,wfq", "--units", "16", "--seeds", "2")
    for place in (("--processes", "1"), ("--ray", "--processes", "2")):
        said = program(*words, *place, "--out", tmp_path / place[0])
        assert said.code == 0
    assert "2 workers, as asked for: 0 of 3 processors are taken" in said.err
    here, there = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.parquet")}
        for folder in (tmp_path / "--processes", tmp_path / "--ray")
    )
    assert here == there
    assert len(here) == 8


def test_size_fleet_finds_the_same() -> None:
    own = NodeGroup("own", 4, 0.0, 4.0, 0.0, usd_per_h=0.2, reserved_discount_frac=0.6)
    machines = Cluster(
        "mixed", (own,), offers=(Offer(type="cloud", cpu=4.0, memory_gib=16.0, usd_per_h=0.2),)
    )
    jobs = Workload.from_columns(
        submit_s=[900.0 * n for n in range(100)], work_s=[4 * 3600.0] * 100, min_units=[4] * 100,
        max_units=[4] * 100, cpu=[1.0] * 100,
    )  # fmt: skip
    here, there = (
        size_fleet(jobs, "sww:b=1h", machines, most=12, processes=1, ray=on_ray) for on_ray in (False, True)
    )
    assert here == there


def test_an_experiment_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """On few jobs, a search and runs of its points and of other policies with several seeds."""
    monkeypatch.setattr(fig8, "SEEDS", (4567, 4568))
    monkeypatch.setattr(fig8, "JOBS", 60)
    monkeypatch.setattr(fig8, "TRAIN_JOBS", 60)
    monkeypatch.setattr(fig8, "EVALUATIONS", 20)
    here, there = (reproduce("pcs-fig8", workers=workers) for workers in (Workers(), Workers(2, ray=True)))
    assert here == there
