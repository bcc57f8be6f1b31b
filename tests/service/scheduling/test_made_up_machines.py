"""A job that a made-up machine can take is told that its command is not run there."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.machines.machine import Kind, Machine
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling.admission import made_up_note
from betimes.service.scheduling.node import LOST, Node, in_brief
from tests.service.four_cores import on_four_cores, spec
from tests.service.machines.kinds import kind

ONLY = "this job only takes time, and its command is not run: its machines are made up "


def test_it_is_told_so_when_it_is_quoted_and_submitted(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        assert (await backend.quote(spec(), "ann")).not_run == f"{ONLY}(n)"
        [taken] = await backend.submit([spec()], "ann")
        assert taken.not_run == f"{ONLY}(n)"

    on_four_cores(tmp_path, ask)


@pytest.mark.parametrize(
    ("cpu", "gpu", "said"),
    [
        (1.0, 0.0, "on made-up machines (big) this job only takes time: its command is not run there"),
        (4.0, 0.0, f"{ONLY}(big)"),
        (1.0, 1.0, f"{ONLY}(a rented g)"),
    ],
)
def test_the_machines_that_can_take_it_count(cpu: float, gpu: float, said: str) -> None:
    offers = [kind("g", 1, 4, gpu=1.0)] if gpu else []
    nodes = [node("here", 2.0, "local"), node("big", 8.0, "virtual")]
    assert made_up_note(spec(cpu=cpu, gpu=gpu), nodes, offers) == said


@pytest.mark.parametrize("made_up", [0, 3, 4, 200])
def test_of_many_nodes_few_are_looked_at_and_the_same_is_said(made_up: int) -> None:
    nodes = [node("here", 2.0, "local") for _ in range(200)]
    nodes += [node(f"v-{number}", 8.0, "virtual") for number in range(made_up)]
    nodes += [node(f"few-{number}", 1.0, "virtual") for number in range(200)]
    samples = in_brief(nodes).samples
    assert len(samples) <= 12
    for cpu in (1.0, 2.0, 8.0):
        assert made_up_note(spec(cpu=cpu), samples, []) == made_up_note(spec(cpu=cpu), nodes, [])


def test_nothing_is_said_where_none_can() -> None:
    lost = node("lost", 8.0, "fake-cloud")
    lost.status = LOST
    assert (
        made_up_note(spec(cpu=2.0), [node("here", 2.0, "local"), node("small", 1.0, "virtual"), lost], [])
        is None
    )


def node(name: str, cores: float, of_kind: Kind) -> Node:
    return Node(Machine(name, of_kind, f"of-{cores:g}", cores, 8.0, 0.0))
