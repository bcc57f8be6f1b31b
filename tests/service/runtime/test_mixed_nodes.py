"""Real and virtual nodes are in one service only where the kind was named: a virtual one runs no command."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import Conflict
from betimes.service.machines.machine import Machine
from betimes.service.runtime.admission import check_start
from betimes.service.scheduling.node import Node
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig
from betimes.service.views.models import NodeSpec, NodeView

HERE = Machine("here", "local", "cpu", 1.0, 8.0, 0.0)
VIRTUAL = Machine("n-0", "virtual", "n", 1.0, 8.0, 0.0)
OF_RAY = Machine("gpu-1f", "ray", "A100", 8.0, 8.0, 1.0)


def added(options: ServiceConfig, *specs: NodeSpec) -> list[NodeView]:
    """The nodes of a service once these have been added."""

    async def main() -> list[NodeView]:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            for spec in specs:
                await client.add_nodes(spec)
            return await client.nodes()

    return asyncio.run(main())


def test_a_service_that_runs_commands_gets_virtual_nodes_by_name_only(tmp_path: Path) -> None:
    options = ServiceConfig(state=tmp_path, machines=[HERE])
    wanted = NodeSpec(type="big", cpu=8, memory_gib=8)
    with pytest.raises(
        Conflict, match=r"runs commands on node here; .* `--kind virtual` adds one all the same"
    ):
        added(options, wanted)
    assert [node.name for node in added(options)] == ["here"]
    both = added(options, wanted.model_copy(update={"kind": "virtual"}))
    assert [(node.name, node.kind) for node in both] == [("here", "local"), ("big-0", "virtual")]
    assert len(added(options)) == 2, "a mixture that was asked for holds after a restart"


def test_a_service_of_virtual_nodes_gets_more_of_them(tmp_path: Path) -> None:
    nodes = added(
        ServiceConfig(state=tmp_path, machines=[VIRTUAL]), NodeSpec(type="big", cpu=8, memory_gib=8)
    )
    assert [(node.name, node.kind) for node in nodes] == [("n-0", "virtual"), ("big-0", "virtual")]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (HERE, VIRTUAL, "runs commands on node here; start it without --nodes"),
        (VIRTUAL, HERE, r"its nodes are virtual .*n-0.*; start it with --nodes"),
    ],
    ids=["virtual-later", "real-later"],
)
def test_a_start_does_not_mix_them(tmp_path: Path, before: Machine, after: Machine, said: str) -> None:
    options = ServiceConfig(state=tmp_path, machines=[before])
    added(options)
    with pytest.raises(Conflict, match=said):
        added(replace(options, machines=[after]))
    assert [node.name for node in added(options)] == [before.name]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (OF_RAY, HERE, r"on a Ray cluster \(gpu-1f is a node of it\); start it with --ray"),
        (OF_RAY, VIRTUAL, "start it with --ray"),
        (HERE, OF_RAY, "has had node here, which is not of a Ray cluster; start it without --ray"),
        (VIRTUAL, OF_RAY, "has had node n-0, which is not of a Ray cluster"),
    ],
    ids=["here-after-ray", "virtual-after-ray", "ray-after-here", "ray-after-virtual"],
)
def test_a_start_on_a_cluster_does_not_mix_them_either(before: Machine, after: Machine, said: str) -> None:
    check_start([before], [Node(before)])
    with pytest.raises(Conflict, match=said):
        check_start([after], [Node(before)])
