"""The executor of a cluster: runs on one node and on several, and agents that come and go meanwhile."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from betimes.errors import Unknown
from betimes.service.executors.protocol import Launch, Place
from betimes.service.executors.ray.executor import RayExecutor
from betimes.service.scheduling.events import Ended, RunId
from tests.service.executors.ray.agents import executing
from tests.service.executors.running import RUN, Heard, a_launch, alive, play, python, shim_of, until

TWO = (Place("a", 1), Place("b", 2))
VARIABLES = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"


def rank_of(launch: Launch, rank: int) -> Path:
    return Path(launch.folder, f"rank-{rank}")


def test_a_run_on_one_node_has_its_own_folder(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "echo out; exit 3", places=(Place("b", 1),))

    async def scenario() -> Ended:
        async with executing("a", "b") as (executor, agents, heard):
            await executor.start(launch)
            await executor.start(launch)
            ended = await heard.ended()
            assert {node for node, _ in agents.calls} == {"b"}
            assert await (await executor.open_log(launch.folder, ["b"], 0, None)).read() == b"out\n"
            return ended

    ended = play(scenario())
    assert (ended.why, ended.exit_code, ended.message) == ("exited", 3, None)


def test_each_process_of_a_run_on_several_nodes_is_told_its_rank(at: Path) -> None:
    launch = a_launch(at, *python(VARIABLES), units=3, places=TWO)

    async def scenario() -> tuple[Heard, Ended]:
        async with executing("a", "b") as (executor, _, heard):
            await executor.start(launch)
            return heard, await heard.ended()

    heard, ended = play(scenario())
    assert (ended.why, ended.exit_code, ended.message) == ("exited", 0, None)
    assert [type(report).__name__ for report in heard.reports] == ["Started", "Ended"]
    told = [json.loads((rank_of(launch, rank) / "log").read_text()) for rank in (0, 1)]
    assert [(one["RANK"], one["BETIMES_LOCAL_UNITS"]) for one in told] == [("0", "1"), ("1", "2")]
    for one in told:
        assert (one["WORLD_SIZE"], one["LOCAL_RANK"]) == ("2", "0")
        assert (one["MASTER_ADDR"], one["MASTER_PORT"]) == ("a.example", "10001")
        assert (one["BETIMES_NODES"], one["BETIMES_NODE_UNITS"]) == ("a.example,b.example", "1,2")


def test_when_one_process_fails_the_others_are_stopped_and_the_failure_is_reported(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "[ $RANK = 0 ] && exec sleep 600; exit 7", units=3, places=TWO)

    async def scenario() -> Ended:
        async with executing("a", "b") as (executor, _, heard):
            await executor.start(launch)
            return await heard.ended()

    ended = play(scenario())
    assert (ended.why, ended.exit_code, ended.message) == ("exited", 7, "rank 1 of 2, on node b")


def test_a_run_that_cannot_start_on_one_node_starts_on_none(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "exec sleep 600", units=3, places=TWO)

    async def scenario() -> tuple[Heard, Ended]:
        async with executing("a", "b") as (executor, _, heard):
            rank_of(launch, 1).parent.mkdir(parents=True)
            rank_of(launch, 1).write_text("where the folder of rank 1 should be")
            await executor.start(launch)
            return heard, await heard.ended()

    heard, ended = play(scenario())
    assert ended.why == "start-failed"
    assert ended.message is not None
    assert ended.message.startswith("rank 1 of 2, on node b: cannot start it: ")
    assert not alive(shim_of(a_launch(at, folder=str(rank_of(launch, 0))))["pgid"])
    assert len(heard.reports) == 2


def test_a_stop_reaches_every_node(at: Path) -> None:
    launch = a_launch(at, "sleep", "600", units=3, places=TWO)

    async def scenario() -> Ended:
        async with executing("a", "b") as (executor, _, heard):
            await executor.start(launch)
            await heard.started()
            await executor.stop(RUN, 20.0)
            return await heard.ended()

    assert play(scenario()).why == "stopped"


def test_runs_go_on_when_the_service_ends_and_are_adopted_by_the_next(at: Path) -> None:
    launch = a_launch(at, "sleep", "600", units=3, places=TWO)
    done = a_launch(at, "true", run=RunId(2, 1), places=(Place("a", 1),))
    never = a_launch(at, "true", run=RunId(3, 1), places=(Place("b", 1),))

    async def scenario() -> Heard:
        async with executing("a", "b") as (executor, agents, heard):
            await executor.start(launch)
            await executor.start(done)
            await heard.started()
            await heard.ended(done.run)
            await executor.close()
            again = Heard()
            second = RayExecutor(again, agents, lambda _: 1.0)
            await second.adopt([launch, done, never])
            assert (await again.started()).adopted
            await again.ended(done.run)
            assert not (await again.started(never.run)).adopted
            await again.ended(never.run)
            await second.stop(RUN, 20.0)
            assert (await again.ended()).why == "stopped"
            await second.close()
            assert agents.released == ["a", "b"], "what has no runs is not left behind"
            return again

    ends = [report.run.job for report in play(scenario()).reports if isinstance(report, Ended)]
    assert sorted(ends) == [1, 2, 3], "each once"


def test_a_node_that_left_while_the_service_was_down_does_not_keep_it_from_starting(at: Path) -> None:
    gone = a_launch(at, "true", run=RunId(2, 1), places=(Place("gone", 1),))
    here = a_launch(at, "true", places=(Place("a", 1),))

    async def scenario() -> None:
        async with executing("a") as (executor, _, heard):
            await executor.adopt([gone, here])
            assert (await heard.ended()).exit_code == 0
            await executor.drop(gone.run)  # once its loss is reported
            await executor.leave("gone")

    play(scenario())


def test_an_agent_that_is_restarted_finds_its_runs_again(at: Path) -> None:
    launch = a_launch(at, "sleep", "600", places=(Place("a", 1),))

    async def scenario() -> Ended:
        async with executing("a") as (executor, agents, heard):
            await executor.start(launch)
            await heard.started()
            command = shim_of(launch)["pgid"]
            agents.restart("a")
            await until(lambda: agents.calls.count(("a", "adopt")) == 1)
            await executor.stop(RUN, 20.0)
            ended = await heard.ended()
            assert shim_of(launch)["pgid"] == command
            return ended

    assert play(scenario()).why == "stopped"


def test_what_a_silent_node_is_asked_it_hears_when_it_answers_again(at: Path) -> None:
    first = a_launch(at, "sleep", "600", places=(Place("a", 1),))
    later = a_launch(at, "true", run=RunId(2, 1), places=(Place("a", 1),))

    async def scenario() -> None:
        async with executing("a") as (executor, agents, heard):
            await executor.start(first)
            await heard.started()
            agents.silent.add("a")
            await executor.start(later)
            await executor.stop(RUN, 0.0)
            await asyncio.sleep(0.1)
            assert len(heard.reports) == 1
            agents.silent.clear()
            assert (await heard.ended(RUN)).why == "stopped"
            assert (await heard.ended(later.run)).exit_code == 0

    play(scenario())


def test_the_rest_of_a_run_is_killed_before_its_job_starts_again_when_a_node_is_lost(at: Path) -> None:
    launch = a_launch(at, "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done", units=3, places=TWO)
    second = a_launch(at, "true", run=RunId(1, 2), places=(Place("a", 1),))

    async def scenario() -> None:
        async with executing("a", "b") as (executor, agents, heard):
            await executor.start(launch)
            await heard.started()
            commands = [shim_of(a_launch(at, folder=str(rank_of(launch, rank))))["pgid"] for rank in (0, 1)]
            agents.lose("b")
            await until(lambda: not alive(commands[1]))
            assert len(heard.reports) == 1, "of a node that is lost the cluster tells"
            await executor.leave("b")
            await executor.drop(RUN)
            await executor.start(second)
            await heard.started(second.run)
            assert not alive(commands[0])
            await heard.ended(second.run)
            assert all(report.run != RUN for report in heard.reports[1:]), "a run that was dropped is over"

    play(scenario())


def test_the_output_of_a_node_that_is_gone_is_where_a_shared_disk_has_it(at: Path) -> None:
    async def scenario() -> None:
        async with executing("a") as (executor, _, _heard):
            folder = at / "runs" / "1" / "1"
            with pytest.raises(
                Unknown, match=rf"is on node b, which has left the cluster \({folder}/log there\)"
            ):
                await executor.open_log(str(folder), ["b"], 0, None)
            folder.mkdir(parents=True)
            (folder / "log").write_text("shared")
            log = await executor.open_log(str(folder), ["b"], 0, None)
            assert await log.read() == b"shared"
            log.close()
            with pytest.raises(Unknown, match="there is no rank 1; the job's last rank is 0"):
                await executor.open_log(str(folder), ["b"], 1, None)

    play(scenario())


def test_a_log_is_read_on_where_it_was_when_its_agent_restarts(at: Path) -> None:
    folder = at / "runs" / "1" / "1"
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(b"one\n")

    async def scenario() -> None:
        async with executing("a") as (executor, agents, _):
            executor.join("a")
            log = await executor.open_log(str(folder), ["a"], 0, None)
            last = await executor.open_log(str(folder), ["a"], 0, 1)
            assert [await one.read() for one in (log, last)] == [b"one\n", b"one\n"]
            with (folder / "log").open("ab") as file:
                file.write(b"two\n")
            agents.restart("a")
            assert await log.read() == b"two\n"
            assert await log.read() == b""
            agents.silent.add("a")
            assert await log.read() == b"", "it may answer again"

    play(scenario())


def test_an_agent_loads_nothing_of_the_scheduler() -> None:
    """Each node starts one, at worst beside jobs that keep its processors busy."""
    code = "import sys, betimes.service.executors.ray.bridge; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(said.stdout.split())
    assert "betimes.service.executors.ray.agent" in loaded
    assert not loaded & {"numba", "pydantic", "betimes.core", "betimes.service.engines"}
