"""Generated workloads that keep a load on nodes, and the load that a workload offers to them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import betimes
from betimes.errors import InputError
from betimes.twin.nodes.offered import offered_load, scaled_to
from betimes.twin.noted_cluster import described_cluster, noted_cluster
from betimes.workload import Workload
from betimes.workload import generators as plain

SPEC = "fitgpp:jobs=120,nodes=3,node_gpu=8,node_cpu=48,load=1.5"


def test_the_nodes_are_those_of_the_parameters_unless_others_are_given() -> None:
    made = betimes.generate(SPEC, seed=1)
    home = described_cluster(SPEC)
    assert home is not None
    assert (len(home), home.groups[0].amounts, made.machine_units) == (3, (8.0, 48.0, 256.0), 24)
    assert noted_cluster(made) == home
    assert made.submit_s[0] == 0.0
    assert made.submit_s[-1] > 0.0
    small = betimes.Cluster.uniform(1, gpu=8.0, cpu=48.0, memory_gib=256.0, name="one")
    elsewhere = betimes.generate(SPEC, cluster=small, seed=1)
    assert elsewhere.submit_s[-1] > 2.0 * made.submit_s[-1]
    assert noted_cluster(elsewhere) is None
    assert elsewhere.notes.header["closed_loop_cluster"] == "one"
    unloaded = plain.generate(SPEC, units=24, seed=1)
    assert unloaded.submit_s.max() == 0.0
    assert np.array_equal(made.work_s, unloaded.work_s)


def test_other_generators_are_as_they_were() -> None:
    assert described_cluster("demo:jobs=30") is None
    assert betimes.generate("demo:jobs=30", units=8, seed=2) == plain.generate(
        "demo:jobs=30", units=8, seed=2
    )
    assert betimes.generate("demo:jobs=30", cluster=betimes.Cluster.pool(8)).machine_units == 8
    with pytest.raises(InputError, match="generator demo: say for how many units"):
        betimes.generate("demo")
    with pytest.raises(
        InputError, match=r"job \d+, field gpu: a unit asks for 2 GPUs, the largest node has 1"
    ):
        betimes.generate("fitgpp:jobs=50,node_gpu=1")


def test_a_workload_that_was_made_for_nodes_runs_on_them() -> None:
    result = betimes.simulate(betimes.generate(SPEC), "fifo")
    assert [each.total for each in result.resources] == [24.0, 144.0, 768.0]
    assert betimes.simulate(betimes.generate(SPEC), "fifo", engine="pool").resources == ()


def test_the_offered_load_is_that_of_the_resource_most_in_demand() -> None:
    jobs = Workload.from_columns(
        submit_s=[0.0, 5.0, 10.0], work_s=[20.0, 40.0, 9.0], max_units=[2, 1, 1], gpu=[1.0, 0.0, 9.0],
        cpu=[1.0, 8.0, 1.0],
    )  # fmt: skip
    cluster = betimes.Cluster.uniform(2, gpu=4.0, cpu=16.0, memory_gib=1.0)
    # The third job fits no node. In 5 s the others want 2 x 10 GPU-seconds of 8 x 5, and 2 x 10 + 8 x 40
    # core-seconds of 32 x 5.
    assert offered_load(jobs, cluster) == 340 / 160
    scaled = scaled_to(jobs, cluster, 0.5)
    assert offered_load(scaled, cluster) == pytest.approx(0.5)
    assert scaled.submit_s.tolist() == pytest.approx([0.0, 21.25, 42.5])
    at_once = Workload.from_columns(submit_s=[0.0, 0.0], work_s=[1.0, 2.0], max_units=1)
    assert math.isinf(offered_load(at_once, cluster))
    with pytest.raises(InputError, match="all submitted at one time"):
        scaled_to(at_once, cluster, 0.5)
    with pytest.raises(InputError, match=r"no job of .* fits the cluster uniform"):
        scaled_to(jobs[np.array([2])], cluster, 0.5)
