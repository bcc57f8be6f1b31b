"""Real and virtual nodes are in one service only where the kind was named: a virtual one runs no command."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.client import AsyncClient
from betimes.errors import Conflict
from betimes.service.machines.machine import Machine
from betimes.service.runtime.bootstrap import Options, running
from betimes.service.views.models import NodeSpec, NodeView

HERE = Machine("here", "local", "cpu", 1.0, 8.0, 0.0)
VIRTUAL = Machine("n-0", "virtual", "n", 1.0, 8.0, 0.0)


def added(options: Options, *specs: NodeSpec) -> list[NodeView]:
    """The nodes of a service once these have been added."""

    async def main() -> list[NodeView]:
        async with running(options) as service, AsyncClient(service.url, service.token) as client:
            for spec in specs:
                await client.add_nodes(spec)
            return await client.nodes()

    return asyncio.run(main())


def test_a_service_that_runs_commands_gets_virtual_nodes_by_name_only(tmp_path: Path) -> None:
    options = Options(tmp_path, machines=[HERE])
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
    nodes = added(Options(tmp_path, machines=[VIRTUAL]), NodeSpec(type="big", cpu=8, memory_gib=8))
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
    options = Options(tmp_path, machines=[before])
    added(options)
    with pytest.raises(Conflict, match=said):
        added(replace(options, machines=[after]))
    assert [node.name for node in added(options)] == [before.name]
