"""Run times predicted by the mean of the user's last two finished jobs: C11 of spec/portfolio.md, seen in promises."""

from __future__ import annotations

import pytest

from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.workload import Workload

Row = tuple[float, float, float, int]
"""A job of one processor: submitted at, run time, estimate, s; user."""

HISTORY: tuple[Row, ...] = ((780.0, 300.0, 900.0, 0), (950.0, 100.0, 900.0, 0))  # end at 1080 and 1050


def promised(rows: tuple[Row, ...], cpus: int) -> list[float]:
    """When each job is promised to finish, at its submission, in the order of submission."""
    submit_s, run_s, estimate_s, user = zip(*sorted(rows), strict=True)
    jobs = Workload.from_columns(
        submit_s=list(submit_s),
        work_s=list(run_s),
        min_units=[1] * len(rows),
        max_units=[1] * len(rows),
        cpu=[1.0] * len(rows),
        estimate_s=list(estimate_s),
        user=list(user),
    )
    cluster = Cluster.uniform(1, gpu=0.0, cpu=float(cpus), memory_gib=1.0, name="one node")
    result = simulate_nodes(jobs, "fifo", cluster=cluster, sizes="last-two", predict=True)
    return result.jobs.predicted_finish_s.tolist()


@pytest.mark.parametrize(
    ("at_s", "estimate_s", "user", "expected_s"),
    [
        (1090.0, 250.0, 0, 200.0),
        (1090.0, 150.0, 0, 150.0),
        (1060.0, 250.0, 0, 100.0),
        (1090.0, 250.0, 1, 250.0),
    ],
)
def test_c11(at_s: float, estimate_s: float, user: int, expected_s: float) -> None:
    found = promised((*HISTORY, (at_s, 1000.0, estimate_s, user)), cpus=8)
    assert found[-1] == pytest.approx(at_s + expected_s)


def test_a_job_that_outruns_its_prediction_is_believed_to_take_twice_as_long() -> None:
    outrun = (1090.0, 500.0, 250.0, 0)  # believed to take 200 s: outrun at 1290
    beside = (1090.0, 1000.0, 1000.0, 1)
    waits = (1340.0, 10.0, 50.0, 2)
    found = promised((*HISTORY, outrun, beside, waits), cpus=2)
    assert found[-1] == pytest.approx(1090.0 + 2 * 200.0 + 50.0)
