"""Prologs and epilogs on the nodes of a cluster: on each node of a run, also where agents come and go meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from betimes.service.executors.prologs import Prologs
from betimes.service.executors.protocol import Launch, Place
from betimes.service.scheduling.events import Ended, NodeFault
from tests.service.executors.ray.agents import executing
from tests.service.executors.running import RUN, a_launch, play, until

TWO = (Place("a", 1), Place("b", 2))
KNOWN = ("JOB_ID", "JOB_NAME", "ATTEMPT", "UNITS", "NODE_NAMES", "CHECKPOINT_DIR")


def prologs(prolog: str | None = None, epilog: str | None = None) -> Prologs:
    return Prologs(prolog, epilog, 30.0, {"PATH": os.environ["PATH"]})


def launch_of(at: Path, command: str, *places: Place, **changes: Any) -> Launch:
    env = {"PATH": os.environ["PATH"], **{f"BETIMES_{name}": name.lower() for name in KNOWN}}
    return a_launch(at, "sh", "-c", command, env=env, places=places, **changes)


def test_they_run_on_each_node_of_a_run(at: Path) -> None:
    around = prologs(f"echo prolog $BETIMES_JOB_NAME >> {at}/log", f"echo epilog $BETIMES_ENDED >> {at}/log")

    async def scenario() -> Ended:
        async with executing("a", "b", around=around) as (executor, _, heard):
            await executor.start(launch_of(at, f"echo run >> {at}/log", *TWO, units=3))
            return await heard.ended()

    ended = play(scenario())
    assert (ended.why, ended.exit_code, ended.faults) == ("exited", 0, ())
    said = (at / "log").read_text().splitlines()
    assert sorted(said) == ["epilog exited"] * 2 + ["prolog job_name"] * 2 + ["run"] * 2


def test_a_node_whose_prolog_fails_is_named_and_its_run_has_not_begun(at: Path) -> None:
    async def scenario() -> Ended:
        around = prologs("echo 'no /scratch' >&2; exit 3")
        async with executing("a", "b", around=around) as (executor, _, heard):
            await executor.start(launch_of(at, f"echo run >> {at}/log", Place("b", 1)))
            return await heard.ended()

    ended, why = play(scenario()), "the prolog of job 1 failed: no /scratch"
    assert (ended.why, ended.message) == ("prolog-failed", why)
    assert ended.faults == (NodeFault("b", "prolog", why),)
    assert not (at / "log").exists()


@pytest.mark.parametrize(("may_restart", "why"), [(True, "prolog-failed"), (False, "start-failed")])
def test_one_that_fails_on_one_of_several_nodes_ends_the_run(at: Path, may_restart: bool, why: str) -> None:
    """A job that may not be requeued has failed: its command has begun on the other node."""
    runs = at / "runs" / "1" / "1"
    around = prologs(
        f"mkdir {at}/first 2>/dev/null && exit 0; until [ -e {at}/begun ]; do sleep 0.02; done; exit 3"
    )

    async def scenario() -> Ended:
        async with executing("a", "b", around=around) as (executor, _, heard):
            command = f"touch {at}/begun; exec sleep 600"
            await executor.start(launch_of(at, command, *TWO, units=3, may_restart=may_restart))
            return await heard.ended()

    ended = play(scenario())
    (fault,) = ended.faults
    assert (ended.why, fault.by, fault.node in ("a", "b")) == (why, "prolog", True)
    assert fault.why in (ended.message or "")
    assert len(list(runs.glob("rank-*/exit.json"))) == 1


def test_an_epilog_that_fails_leaves_the_end_as_it_is(at: Path) -> None:
    async def scenario() -> Ended:
        async with executing("a", "b", around=prologs(epilog="exit 4")) as (executor, _, heard):
            await executor.start(launch_of(at, "exit 5", Place("a", 1)))
            return await heard.ended()

    ended, why = play(scenario()), "the epilog of job 1 failed: it exits with 4"
    assert (ended.why, ended.exit_code, ended.faults) == ("exited", 5, (NodeFault("a", "epilog", why),))


def test_when_a_service_or_an_agent_begins_anew_meanwhile_a_prolog_runs_again_and_the_command_once(
    at: Path,
) -> None:
    waits = f"echo $$ >> {at}/prologs; until [ -e {at}/may-end ]; do sleep 0.02; done"
    around, launch = prologs(waits), launch_of(at, f"echo run >> {at}/log", Place("a", 1))

    def prologs_so_far() -> int:
        return len((at / "prologs").read_text().split()) if (at / "prologs").exists() else 0

    async def scenario() -> None:
        async with executing("a", around=around) as (executor, _, _):
            await executor.start(launch)
            await until(lambda: prologs_so_far() == 1)
        async with executing("a", around=around) as (executor, agents, heard):
            await executor.adopt([launch])
            await until(lambda: prologs_so_far() == 2)
            agents.restart("a")
            await until(lambda: prologs_so_far() == 3)
            (at / "may-end").touch()
            assert (await heard.ended()).exit_code == 0
            assert [one.run for one in heard.reports if isinstance(one, Ended)] == [RUN]

    play(scenario())
    assert (at / "log").read_text() == "run\n"
