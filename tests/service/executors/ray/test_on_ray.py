"""The service on a real Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from betimes.errors import Refused
from tests.service.executors.ray.served import (
    RayOnThisMachine,
    ServiceOnRay,
    agents,
    service_on,
    until,
)

pytest.importorskip("ray", reason="Ray is not installed (betimes[ray])")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings


def log(service: ServiceOnRay, number: int, rank: int | None = None, follow: bool = False) -> str:
    return b"".join(service.client.logs(number, rank=rank, follow=follow)).decode()


def test_a_job_on_one_node_and_a_job_on_two(service: ServiceOnRay) -> None:
    until(lambda: sorted(service.nodes().values()) == [1.0, 2.0])  # the second may join later
    one = service.submit("sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done; exit 5")
    assert log(service, one, follow=True) == "1\n2\n3\n"
    assert service.until(one, "failed").attempt == 1
    assert service.runs(one) == [("exited", 5)]
    both = service.submit(
        "sh", "-c", "echo $RANK of $WORLD_SIZE with $BETIMES_LOCAL_UNITS", min_units=3, max_units=3
    )
    service.until(both, "finished")
    said = sorted(log(service, both, rank) for rank in (0, 1))
    assert [line.split(" with ")[0] for line in said] == ["0 of 2", "1 of 2"]
    assert sorted(int(line.split()[-1]) for line in said) == [1, 2]


def test_cancelling_leaves_the_grace_period(service: ServiceOnRay) -> None:
    command = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    number = service.submit("sh", "-c", command, grace_s=30.0)
    until(lambda: service.job(number).status == "running" and log(service, number) == "ready\n")
    service.client.cancel(number)
    service.until(number, "cancelled")
    assert log(service, number).endswith("saved\n")


def test_an_array(service: ServiceOnRay) -> None:
    first = service.submit("sh", "-c", "exit $BETIMES_ARRAY_INDEX", array="0-3")
    until(lambda: all(service.job(first + index).status in ("finished", "failed") for index in range(4)))
    assert [service.runs(first + index) for index in range(4)] == [[("exited", index)] for index in range(4)]


def test_commands_of_the_operators_run_on_the_nodes(ray: RayOnThisMachine, tmp_path: Path) -> None:
    log, ill = tmp_path / "log", tmp_path / "ill"
    options = (
        *("--prolog", f'echo "prolog $BETIMES_JOB_ID" >> {log}', "--epilog", f"echo epilog >> {log}"),
        *("--node-health", f"[ ! -e {ill}-$BETIMES_NODE_NAME ] || {{ echo bad fan; exit 1; }}"),
        *("--node-health-every", "1s"),
    )
    with service_on(tmp_path / "state", ray.address, *options) as service:
        number = service.submit("sh", "-c", f"echo run >> {log}")
        service.until(number, "finished")
        assert log.read_text().splitlines() == [f"prolog {number}", "run", "epilog"]
        name = service.node_of(2.0)
        Path(f"{ill}-{name}").touch()

        def found() -> tuple[str, str | None, str | None]:
            node = next(node for node in service.client.nodes() if node.name == name)
            return node.status, node.drained_by, node.drain_reason

        until(lambda: found() == ("drained", "node-health", "bad fan"))
        service.end()
        Path(f"{ill}-{name}").unlink()
        service.begin()
        assert found() == ("drained", "node-health", "bad fan")
        service.client.undrain(name)
        time.sleep(2.0)  # two looks later
        assert found()[0] == "up"


@pytest.fixture
def alone(service: ServiceOnRay) -> Iterator[ServiceOnRay]:
    """Another policy may be put in force, and jobs may be left: what was before comes back."""
    before = service.client.policy().policy
    yield service
    live = [job.job_id for job in service.client.iterate_jobs() if not job.status.is_over]
    service.client.cancel(live, where_possible=True)
    until(lambda: all(service.job(number).status.is_over for number in live))
    service.client.set_policy(before)


STEPS = """
saved=$BETIMES_CHECKPOINT_DIR/$RANK
step=$(cat $saved 2>/dev/null || echo 0)
echo rank $RANK of $WORLD_SIZE resumes at $step
trap 'echo $step > $saved; exit 0' TERM
while :; do step=$((step + 1)); sleep 0.05; done
"""


def test_a_trial_job_takes_the_place_of_a_job_on_two_nodes_which_resumes(
    alone: ServiceOnRay, tmp_path: Path
) -> None:
    """All of its processes are stopped, each saves, and all start again where they were, on both nodes."""
    service = alone
    service.client.set_policy("fitgpp")
    saved = tmp_path / "saved"
    saved.mkdir()
    fields = {"min_units": 3, "max_units": 3, "units_per_task": "spread", "grace_s": 30.0}
    victim = service.submit("sh", "-c", STEPS, checkpoint_dir=str(saved), **fields)
    service.until(victim, "running")
    for rank in (0, 1):
        until(lambda rank=rank: log(service, victim, rank) == f"rank {rank} of 2 resumes at 0\n")
    trial = service.submit("sleep", "1", cpu=2.0, qos="trial")
    service.until(trial, "finished")
    until(lambda: service.job(victim).attempt == 2 and service.job(victim).status == "running")
    assert service.runs(victim)[0] == ("preempted", 0)
    steps = [int((saved / str(rank)).read_text()) for rank in (0, 1)]
    assert all(step > 0 for step in steps)
    for rank in (0, 1):
        resumed = f"rank {rank} of 2 resumes at {steps[rank]}\n"
        until(lambda rank=rank, resumed=resumed: log(service, victim, rank) == resumed)


def test_a_job_is_made_narrower_for_another(alone: ServiceOnRay, tmp_path: Path) -> None:
    service = alone
    service.client.set_policy("max-min")
    said = tmp_path / "said"
    counts = f"trap 'exit 0' TERM; echo $RANK $WORLD_SIZE >> {said}; while :; do sleep 0.1; done"
    wide = service.submit("sh", "-c", counts, min_units=1, max_units=3, grace_s=30.0)
    until(lambda: said.exists() and len(said.read_text().splitlines()) == 2)
    assert sorted(said.read_text().splitlines()) == ["0 2", "1 2"], "on both nodes"
    for _ in range(2):
        service.submit("sleep", "600")
    until(lambda: service.job(wide).units == 1 and service.job(wide).status == "running")
    until(lambda: len(said.read_text().splitlines()) == 3)
    assert service.runs(wide)[-1] == (None, None)


def test_a_run_outlives_the_service_and_its_agents(service: ServiceOnRay, tmp_path: Path) -> None:
    said, may_end = tmp_path / "said", tmp_path / "may-end"
    command = (
        f"echo began >> {said}; until [ -e {may_end} ]; do sleep 0.1; done; echo ended >> {said}; exit 4"
    )
    number = service.submit("sh", "-c", command)
    until(lambda: said.exists() and service.job(number).status == "running")
    service.end(signal.SIGKILL)
    for agent in agents():
        os.kill(agent, signal.SIGKILL)
    service.begin()
    assert service.job(number).status == "running"
    may_end.touch()
    service.until(number, "failed")
    assert service.runs(number) == [("exited", 4)]
    assert said.read_text() == "began\nended\n", "it was run once"


def test_an_agent_that_is_killed_is_replaced(service: ServiceOnRay) -> None:
    number = service.submit("sleep", "600")
    service.until(number, "running")
    before = agents()
    for agent in before:
        os.kill(agent, signal.SIGKILL)
    service.client.cancel(number)
    service.until(number, "cancelled")
    assert not set(before) & set(agents())


def test_a_node_joins_and_its_loss_requeues_its_runs(
    service: ServiceOnRay, ray: RayOnThisMachine, tmp_path: Path
) -> None:
    node = ray.add(3)
    name = service.node_of(3.0)
    alive = tmp_path / "alive"
    number = service.submit("sh", "-c", f"while :; do date +%s%N > {alive}; sleep 0.1; done", cpu=3.0)
    until(lambda: service.job(number).status == "running" and alive.exists())
    ray.kill(node)
    until(lambda: service.job(number).status == "queued")
    assert name not in service.nodes()
    assert service.runs(number) == [("node-lost", None)]
    last = alive.read_text()
    time.sleep(0.5)
    assert alive.read_text() == last, "the run has ended with its node"
    again = ray.add(3)
    service.node_of(3.0)
    assert service.until(number, "running").attempt == 2
    service.client.cancel(number)
    service.until(number, "cancelled")
    ray.kill(again)
    until(lambda: 3.0 not in service.nodes().values())


def test_a_job_runs_on_a_node_with_the_labels_that_it_requires(
    ray: RayOnThisMachine, alone: ServiceOnRay
) -> None:
    service = alone
    service.client.set_policy("nodes:fifo")
    with pytest.raises(Refused, match="require: no node has zone=b; none has a label zone"):
        service.submit("true", require={"zone": "b"})
    node = ray.add(4, labels={"zone": "b"})
    name = service.node_of(4.0)
    labels = {each.name: each.labels for each in service.client.nodes()}
    assert labels[name]["zone"] == "b"
    assert not any("ray.io/node-id" in each for each in labels.values())
    numbers = [service.submit("sleep", "1", require={"zone": "b"}) for _ in range(4)]
    for number in numbers:
        service.until(number, "finished")
        [run] = service.client.job(number).runs
        assert [place.node for place in run.places] == [name]
    waits = service.submit("sleep", "600", cpu=4.0, require={"zone": "b"})
    service.until(waits, "running")
    ray.kill(node)
    until(lambda: service.job(waits).status == "queued")
    reason = service.job(waits).reason
    assert reason is not None
    assert reason.text.startswith("no node that is up has zone=b; none has a label zone")
