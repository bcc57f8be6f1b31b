"""What is said of a job whose units need less than the whole ones that a pool gives out."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.machines.machine import Machine
from betimes.service.runtime.admission import rounding_note, spread_note
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling.node import Node
from tests.service.four_cores import on_four_cores, spec

FOUR_CORES = [Node(Machine("n", "virtual", "n", 4.0, 8.0, 0.0))]
TWO_GPUS = [Node(Machine("g", "virtual", "g", 8.0, 8.0, 2.0))]


def test_what_a_fraction_of_a_core_counts_as_is_said(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        said = (
            "policy fifo gives out whole cores: each unit of this job counts as 1 core, though it needs 0.1; "
            "`betimes policy set nodes:fifo` lets jobs share cores"
        )
        assert (await backend.quote(spec(cpu=0.1), "ann")).note == said
        taken = await backend.submit([spec(cpu=0.1) for _ in range(5)], "ann", key="k")
        assert {one.note for one in taken} == {said}
        assert taken[4].quote is not None
        assert taken[4].quote.reason is not None
        assert taken[4].quote.reason.text.startswith("needs 1 of the pool's 4 units (each a whole core); ")
        again = await backend.submit([spec(cpu=0.1) for _ in range(5)], "ann", key="k")
        assert {one.note for one in again} == {said}
        [whole] = await backend.submit([spec(cpu=1.5)], "ann")
        assert whole.note is None

    on_four_cores(tmp_path, ask)


@pytest.mark.parametrize(
    ("nodes", "asked", "policy", "said"),
    [
        (FOUR_CORES, {"cpu": 0.5}, "max-min", "`betimes policy set easy`"),  # nodes have no max-min
        (TWO_GPUS, {"cpu": 2.0}, "fifo", "counts as 1 GPU, though it needs 0;"),
        (TWO_GPUS, {"gpu": 0.5}, "srsf", "counts as 1 GPU, though it needs 0.5;"),
        (TWO_GPUS, {"gpu": 1.0}, "fifo", None),
        (FOUR_CORES, {"cpu": 0.5}, "nodes:fifo", None),
        (FOUR_CORES, {"cpu": 0.5}, "easy", None),
        ([], {"cpu": 0.5}, "fifo", None),
    ],
)
def test_what_is_rounded_depends_on_nodes_and_policy(
    nodes: list[Node], asked: dict[str, float], policy: str, said: str | None
) -> None:
    found = rounding_note(spec(**asked), nodes, policy)
    assert found is None if said is None else found is not None and said in found


def test_a_command_that_a_pool_may_start_on_several_machines_is_said_to_be() -> None:
    two = [Node(Machine(name, "ray", "n", 1.0, 8.0, 0.0)) for name in ("a", "b")]
    said = spread_note(spec(min_units=2, max_units=2), two, "fifo")
    assert said is not None
    assert "its command is then started once on each; one unit of more --cpu is on one machine" in said
    for asked, nodes, policy in (
        ({"max_units": 1}, two, "fifo"),
        ({"max_units": 2}, two[:1], "fifo"),
        ({"max_units": 2}, 2 * FOUR_CORES, "fifo"),
        ({"max_units": 2}, two, "easy"),
    ):
        assert spread_note(spec(min_units=asked["max_units"], **asked), nodes, policy) is None
