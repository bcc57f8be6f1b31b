"""A run that is bound to its node's own process ends with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from betimes.service.scheduling.events import Ended
from tests.service.executors.running import a_launch, alive, executing, play, shim_of


def test_a_run_is_killed_when_its_node_has_ended(at: Path) -> None:
    launch = a_launch(at, "sleep", "600")

    async def scenario() -> Ended:
        with subprocess.Popen(["sleep", "600"]) as node:
            async with executing(ends_with=node.pid) as (executor, heard):
                await executor.start(launch)
                await heard.started()
                node.kill()
                return await heard.ended()

    ended = play(scenario())
    assert (ended.why, ended.signal, ended.message) == (
        "node-lost",
        9,
        "its node has left the cluster, and it was killed",
    )
    assert not alive(shim_of(launch)["pgid"])


def test_a_run_that_ends_before_its_node_ends_as_it_would_alone(at: Path) -> None:
    async def scenario() -> Ended:
        with subprocess.Popen(["sleep", "600"]) as node:
            async with executing(ends_with=node.pid) as (executor, heard):
                await executor.start(a_launch(at, "false"))
                ended = await heard.ended()
            node.kill()
            return ended

    ended = play(scenario())
    assert (ended.why, ended.exit_code, ended.message) == ("exited", 1, None)
