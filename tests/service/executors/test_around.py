"""What is run before and after runs: requests and restarts meanwhile lose nothing, and no command starts twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from betimes.service.executors import local
from betimes.service.executors.protocol import Launch
from betimes.service.scheduling.events import Ended, Started
from tests.service.executors.running import RUN, a_launch, executing, play, shim_of, until


class Around:
    """Notes each prolog and epilog, by when, job and GPUs; each goes on until it may end."""

    def __init__(self, *waits: str) -> None:
        self.began: list[tuple[str, int, str]] = []
        self.may_end = {"prolog": asyncio.Event(), "epilog": asyncio.Event()}
        for when, event in self.may_end.items():
            if when not in waits:
                event.set()

    async def __call__(self, when: str, launch: Launch, variables: Mapping[str, str]) -> str | None:
        self.began.append((when, launch.run.job, variables["CUDA_VISIBLE_DEVICES"]))
        await self.may_end[when].wait()
        return None


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each prolog and epilog here is a long one."""
    monkeypatch.setattr(local, "_PATIENCE_S", 0.1)


def counting(at: Path, job: int = 1) -> Launch:
    return a_launch(at, "sh", "-c", f"echo {job} >> {at}/count", run=RUN._replace(job=job), gpu=1.0, cpu=0.0)


def test_a_prolog_that_a_restart_cuts_short_runs_again_and_the_command_once(at: Path) -> None:
    async def scenario() -> None:
        first, second = Around("prolog"), Around("prolog")
        async with executing(around=first, gpus=("a", "b")) as (executor, heard):
            await executor.start(counting(at))
            await until(lambda: bool(first.began))
        assert not heard.reports
        async with executing(around=second, gpus=("a", "b")) as (executor, heard):
            await executor.adopt([counting(at)])
            await executor.start(counting(at, job=2))
            await until(lambda: len(second.began) == 2)
            second.may_end["prolog"].set()
            assert not (await heard.started()).adopted
            for run in (RUN, RUN._replace(job=2)):
                assert (await heard.ended(run)).exit_code == 0
        assert second.began[:2] == [("prolog", 1, "a"), ("prolog", 2, "b")]
        assert sorted((at / "count").read_text().split()) == ["1", "2"]
        assert [type(one) for one in heard.reports if one.run == RUN] == [Started, Ended]

    play(scenario())


def test_an_epilog_that_a_restart_cuts_short_runs_again_and_keeps_the_devices(at: Path) -> None:
    async def scenario() -> None:
        first, second = Around("epilog"), Around("epilog")
        async with executing(around=first, gpus=("a", "b")) as (executor, heard):
            await executor.start(counting(at))
            await until(lambda: ("epilog", 1, "a") in first.began)
        assert [type(one) for one in heard.reports] == [Started]
        async with executing(around=second, gpus=("a", "b")) as (executor, heard):
            await executor.adopt([counting(at)])
            await executor.start(counting(at, job=2))
            await until(lambda: ("epilog", 2, "b") in second.began)
            second.may_end["epilog"].set()
            assert (await heard.ended()).exit_code == 0
            await executor.start(counting(at, job=3))
            assert (await heard.ended(RUN._replace(job=3))).exit_code == 0
            assert [one for one in second.began if one[1] != 2] == [
                ("epilog", 1, "a"),
                ("prolog", 3, "a"),
                ("epilog", 3, "a"),
            ]
        assert (at / "count").read_text().split() == ["1", "2", "3"]
        assert [type(one) for one in heard.reports if one.run == RUN] == [Ended]

    play(scenario())


@pytest.mark.parametrize("when", ["prolog", "epilog"])
def test_a_stop_meanwhile_forces_nothing_and_is_reported_once(at: Path, when: str) -> None:
    async def scenario() -> None:
        around = Around(when)
        async with executing(around=around, gpus=("a",), force_after_s=0.1) as (executor, heard):
            await executor.start(counting(at))
            await until(lambda: (when, 1, "a") in around.began)
            await executor.stop(RUN, 0.0)
            await executor.limit(RUN, 0.1)
            await asyncio.sleep(0.5)
            assert not any(isinstance(one, Ended) for one in heard.reports)
            around.may_end[when].set()
            ended = await heard.ended()
            expected = {"prolog": ("stopped", None, [Ended]), "epilog": ("exited", 0, [Started, Ended])}[when]
            assert (ended.why, ended.exit_code, [type(one) for one in heard.reports]) == expected
        assert (at / "count").exists() == (when == "epilog")

    play(scenario())


def test_an_end_that_is_forced_is_not_forced_once_more_during_the_epilog(at: Path) -> None:
    """The supervisor, let go on, records the end at once: it is not reported as one that records nothing."""

    async def scenario() -> None:
        around = Around("epilog")
        async with executing(around=around, gpus=("a",), force_after_s=0.5) as (executor, heard):
            launch = a_launch(at, "bash", "-c", "trap : TERM; echo 1; while :; do sleep 1; done", gpu=1.0)
            await executor.start(launch)
            await heard.started()
            with pytest.MonkeyPatch.context() as swallowed:
                swallowed.setattr(local, "write_request", lambda _control, _request: None)
                await executor.stop(RUN, 0.2)
                await until(lambda: ("epilog", 1, "a") in around.began)
            await asyncio.sleep(1.0)
            around.may_end["epilog"].set()
            assert (await heard.ended()).why == "stopped"
        assert not [one for one in heard.reports if "does not record" in str(getattr(one, "message", ""))]

    play(scenario())


def test_a_run_that_is_suspended_before_its_command_begins_stands_still_until_it_is_resumed(at: Path) -> None:
    async def scenario() -> None:
        around = Around("prolog")
        async with executing(around=around, gpus=("a",)) as (executor, heard):
            launch = a_launch(at, "sleep", "0.5", gpu=1.0)
            await executor.start(launch)
            await executor.suspend(RUN)
            around.may_end["prolog"].set()
            await heard.started()
            await until(
                lambda: ") T " in Path(f"/proc/{shim_of(launch)['pgid']}/stat").read_text(encoding="utf-8")
            )
            await executor.resume(RUN, None)
            assert (await heard.ended()).exit_code == 0

    play(scenario())
