"""Sixty jobs on a real Slurm whose clock runs 240 times as fast, watched by a service with the same clock.

Coverage is not judged, as jobs last longer by the noise of such a clock: about 20 s of it, a minute at times.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.slurm_source import Observation, SlurmSource, machines_of_slurm
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.startup.in_memory import assembled
from betimes.slurm.commands import Commands
from betimes.slurm.picture import Looks
from betimes.slurm.queue import POLICY
from tests.service.serving import PATIENCE_S
from tests.slurm.real_slurm import FAST, NoSlurm, end_jobs, fast_clock, real_slurm

TIMES, JOBS, WITHIN_S = 240.0, 60, 240.0


@pytest.mark.slow
def test_promises_are_closer_than_those_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    draw = np.random.default_rng(3)
    submit_s = np.sort(draw.uniform(0.0, 4.0 * 3600.0, JOBS)).tolist()
    run_s = draw.uniform(600.0, 3600.0, JOBS)
    limit_min = np.ceil(run_s * draw.uniform(1.5, 4.0, JOBS) / 60.0).astype(int).tolist()
    cpus = draw.choice([1, 4, 4, 8, 16], JOBS).tolist()

    def submit(number: int) -> None:
        words = ("sbatch", "-o/dev/null", f"-n{cpus[number]}", f"-t{limit_min[number]}", f"-Jj{number % 4}")
        sleeps = f"--wrap=sleep {run_s[number]:.0f}"
        subprocess.run((*words, sleeps), env=env, cwd=tmp_path, check=True, capture_output=True)

    async def story() -> None:
        now = subprocess.run(("date", "+%s.%N"), env=env, capture_output=True, text=True, check=True)
        clock = VirtualClock(float(now.stdout), TIMES)
        looks, observation = Looks(Commands(), clock.now_s), Observation()
        machines, settings = machines_of_slurm(looks.machines()), Settings(observation=observation)
        state = tmp_path / "state"
        async with assembled(machines, POLICY, state, clock=clock, settings=settings) as service:
            source = SlurmSource(service.controller, service.backend.promises, looks, observation, 60.0)
            begun_at, until_s, submitted = clock.now_s(), time.monotonic() + WITHIN_S, 0
            while True:
                while submitted < JOBS and clock.now_s() >= begun_at + submit_s[submitted]:
                    await asyncio.to_thread(submit, submitted)
                    submitted += 1
                await source.look()
                assert source.trouble is None
                known = service.controller.scheduler.ledger.jobs
                if submitted == JOBS and not known:
                    break
                assert time.monotonic() < until_s, f"{len(known)} jobs wait or run still"
                await asyncio.sleep(0.3)
            await service.settle()
            quotes = [quote for number in range(1, JOBS + 1) for quote in service.store.quotes(number)]
            account = await service.backend.accuracy(None, 0.0, None, False)
        assert len(quotes) >= JOBS
        # No end is foreseen while nodes do not respond.
        foreseen = [quote for quote in quotes if quote["finish_at"] is not None]
        assert len(foreseen) >= 0.8 * JOBS
        for quote in foreseen:
            assert max(quote["made_at"], quote["start_at"]) <= quote["finish_at"]
        every = account.beside_slurm[0]
        assert every.slurm is not None
        assert every.figures.promises >= 0.8 * JOBS
        assert every.slurm.slurm.promises >= 10
        assert (every.slurm.promises.err_p50_s or 0.0) < (every.slurm.slurm.err_p50_s or 0.0)

    with ExitStack() as stack:
        folder = tmp_path / "slurm"
        folder.mkdir()
        try:
            fast = stack.enter_context(fast_clock(TIMES, environ, tmp_path))
            env = stack.enter_context(real_slurm(folder, fast, 8, FAST.format(folder=folder)))
        except NoSlurm as reason:
            pytest.skip(str(reason))
        for name, value in env.items():
            if name in ("PATH", "SLURM_CONF", "LD_PRELOAD") or name.startswith("FAKETIME"):
                monkeypatch.setenv(name, value)
        try:
            asyncio.run(story())
        finally:
            end_jobs(env, PATIENCE_S)
