"""Every job may have a speed-up curve of its own, and there is no end of jobs: curves that nobody has are forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.policies import parse_policy
from betimes.service.engines import pool
from betimes.service.engines.messages import JobRequest
from betimes.service.engines.pool import LivePool
from betimes.twin.pool.virtual_jobs import VirtualJob
from tests.service.engines.playing import Played, play

JOBS, UNITS = 300, 8


def served(policy: str) -> tuple[Played, LivePool, int]:
    """Jobs of as many curves, the engine that had them, and how many curves it knew at most."""
    engine = LivePool(parse_policy(policy), UNITS, np.array([[0, 1000 * UNITS, 0]]), sizes=(50.0, 500.0))
    rng = np.random.default_rng(2)
    jobs, arrivals, most = dict[int, VirtualJob](), list[tuple[float, JobRequest]](), 0
    at_s = np.cumsum(rng.exponential(20.0, JOBS)).tolist()
    for job in range(JOBS):
        widest = int(rng.integers(1, 9))
        speeds = [1.0, *np.cumsum(rng.uniform(0.2, 1.0, widest - 1)) + 1.0]
        run_s = float(rng.exponential(60.0)) + 1.0
        arrivals.append(
            (at_s[job], JobRequest(job, 1, widest, "table", run_s, table=tuple(map(float, speeds))))
        )
        jobs[job] = VirtualJob(run_s * speeds[-1], [0.0, *speeds])
    row_of = engine.curves.row_of

    def noted(wanted: JobRequest) -> int:
        nonlocal most
        found = row_of(wanted)
        most = max(most, len(engine.curves))
        return found

    engine.curves.row_of = noted  # type: ignore[method-assign]
    return play(engine, jobs, arrivals), engine, most


@pytest.mark.parametrize("policy", ["srsf", "wfq:T=2,W=1,zeta_min=0.8,delta=0.1"])
def test_what_is_forgotten_changes_nothing(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played, engine, most = served(policy)
    assert len(played.finish_s) == JOBS
    assert most < JOBS / 2
    assert len(engine.curves) < JOBS / 2
    monkeypatch.setattr(pool, "SPARE_CURVES", 10 * JOBS)
    others, keeping, most = served(policy)
    assert most == len(keeping.curves) > JOBS / 2
    assert others == played


def test_quotes_leave_no_curves_behind() -> None:
    engine = LivePool(parse_policy("fifo"), UNITS, np.array([[0, 1000 * UNITS, 0]]))
    for number in range(JOBS):
        wanted = JobRequest(number, 1, 2, "table", 60.0, table=(1.0, 1.5 + number / 1000))
        found = engine.foresee(0.0, wanted)()
        assert found.finish_s.tolist() == pytest.approx([60.0])
    assert len(engine.curves) < JOBS / 2
