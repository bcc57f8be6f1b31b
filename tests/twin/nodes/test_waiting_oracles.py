"""The waiting policies against the heap of A.12 and the object model, job by job, without tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.outcome import Result
from betimes.workload import Workload
from tests.reference.waiting import Came, Job, Rules, free_times, simulate

POLICIES = ("njw", "ajw", "ajw-t", "ljw", "sww", "compound")
CORES = 4


def specification(rules: Rules) -> str:
    """The policy as the command line has it."""
    given = {"order": rules.order, "backfill": rules.backfill, "placement": rules.placement}
    if rules.policy in ("ajw-t", "sww", "compound"):
        given["b"] = f"{rules.b!r}"
    if rules.policy in ("sww", "compound"):
        given["waits"] = rules.waits
    if rules.knows_short:
        given |= {"t": f"{rules.t!r}", "lengths": rules.lengths, "length": rules.length}
        given["short_uses_owned"] = "true" if rules.short_uses_owned else "false"
    return rules.policy + ":" + ",".join(f"{name}={value}" for name, value in given.items())


def run(jobs: Sequence[Job], machines: int, cores: int, rules: Rules) -> Result:
    """The twin's; a machine on offer holds any job."""
    workload = Workload.from_columns(
        submit_s=[job.submit for job in jobs],
        work_s=[job.run * job.cores for job in jobs],
        min_units=[job.cores for job in jobs],
        max_units=[job.cores for job in jobs],
        cpu=[1.0] * len(jobs),
        estimate_s=[job.estimate for job in jobs],
    )
    offer = Offer(type="cloud", cpu=float(cores), memory_gib=4.0, usd_per_h=3600.0)
    cluster = Cluster("owned", (NodeGroup("own", machines, 0.0, float(cores), 0.0),), offers=(offer,))
    return simulate_nodes(workload, specification(rules), cluster=cluster)


def assert_same(result: Result, expected: Sequence[Came]) -> None:
    jobs = result.jobs
    assert jobs.rented.tolist() == [one.rented for one in expected]
    np.testing.assert_array_equal(jobs.start_s, [one.start for one in expected])
    np.testing.assert_array_equal(jobs.finish_s, [one.finish for one in expected])
    usd = [math.fsum(end - begin for begin, end in one.stays) for one in expected]
    np.testing.assert_allclose(jobs.cost_usd, usd, rtol=1e-12, atol=1e-9)


def workloads(most_cores: int, times: st.SearchStrategy[float]) -> st.SearchStrategy[list[Job]]:
    """Up to forty jobs; several may come at once."""
    gaps = st.one_of(st.just(0.0), times)
    runs = times.filter(lambda run: run > 0.0)
    shape = st.tuples(gaps, runs, st.integers(1, most_cores), runs)

    def jobs(rows: list[tuple[float, float, int, float]]) -> list[Job]:
        submit = np.cumsum([row[0] for row in rows])
        # An estimate counts as a second at least.
        return [
            Job(float(at), row[1], row[2], max(1.0, row[3])) for at, row in zip(submit, rows, strict=True)
        ]

    return st.lists(shape, min_size=1, max_size=40).map(jobs)


WHOLE = st.integers(0, 40).map(float)
"""Seconds, so that much happens at once."""

ANY = st.floats(0.001, 1000.0)
BINARY = st.integers(1, 1 << 20).map(lambda number: number / 1024)
"""Seconds that times and over a number of cores are the same again."""

RULES = st.builds(
    Rules,
    policy=st.sampled_from(POLICIES),
    t=st.sampled_from([0.0, 10.0, 20.0]),
    b=st.sampled_from([1.0, 10.0, 25.0, 60.0]),
    lengths=st.sampled_from(["oracle", "estimate", "speculate"]),
    waits=st.sampled_from(["oracle", "none"]),
    short_uses_owned=st.booleans(),
    length=st.sampled_from(["run_time", "core_time"]),
    order=st.sampled_from(["fifo", "sjf"]),
    backfill=st.sampled_from(["strict", "skip-over"]),
    placement=st.sampled_from(["first", "best", "worst", "best-cores"]),
)


@given(
    jobs=st.one_of(workloads(1, WHOLE), workloads(1, ANY)),
    machines=st.integers(1, 4),
    policy=st.sampled_from(POLICIES),
    t=st.sampled_from([0.0, 10.0, 30.0]),
    b=st.sampled_from([0.0, 10.0, 33.3]),
    waits=st.sampled_from(["oracle", "none"]),
    short_uses_owned=st.booleans(),
)
def test_jobs_of_one_core_are_served_like_a_heap_of_free_times(
    jobs: list[Job], machines: int, policy: str, t: float, b: float, waits: str, short_uses_owned: bool
) -> None:
    rules = Rules(policy, t=t, b=b, waits=waits, short_uses_owned=short_uses_owned)
    assert_same(run(jobs, machines, 1, rules), free_times(jobs, machines, rules))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_long_run_is_served_like_a_heap_of_free_times(policy: str) -> None:
    """At a load of 1, where all but one of them rent."""
    rng = np.random.default_rng(11)
    submit = np.cumsum(rng.exponential(5.0, 30_000))
    jobs = [
        Job(at, run) for at, run in zip(submit.tolist(), rng.exponential(500.0, 30_000).tolist(), strict=True)
    ]
    rules = Rules(policy, t=180.0, b=60.0)
    assert_same(run(jobs, 100, 1, rules), free_times(jobs, 100, rules))


@pytest.mark.parametrize("policy", ["njw", "ajw-t", "sww"])
@pytest.mark.parametrize("run_s", [5.0, 500.0])
def test_more_jobs_than_there_is_room_for_records_rent_at_one_instant(policy: str, run_s: float) -> None:
    """With sww those of 5 s have ended before it is known that they wait in vain."""
    jobs = [Job(0.0, run_s)] * 40_000
    rules = Rules(policy, b=60.0)
    assert_same(run(jobs, 10, 1, rules), free_times(jobs, 10, rules))


@given(
    jobs=st.one_of(workloads(CORES, WHOLE), workloads(CORES, BINARY)), machines=st.integers(1, 3), rules=RULES
)
def test_jobs_of_several_cores_are_served_as_in_the_object_model(
    jobs: list[Job], machines: int, rules: Rules
) -> None:
    assert_same(run(jobs, machines, CORES, rules), simulate(jobs, machines, CORES, rules))


@given(jobs=st.one_of(workloads(1, WHOLE), workloads(1, ANY)), machines=st.integers(1, 3), rules=RULES)
def test_the_two_oracles_agree(jobs: list[Job], machines: int, rules: Rules) -> None:
    if rules.lengths == "oracle" and rules.order == "fifo":
        assert simulate(jobs, machines, 1, rules) == free_times(jobs, machines, rules)
