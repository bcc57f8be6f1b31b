"""Eva's trace from Alibaba's pods: the published prefix, its facts, and what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from betimes_papers.workloads.eva import WORKLOADS
from betimes_papers.workloads.profiles import read_profiles

import betimes
from betimes.cluster import read_cluster
from betimes.errors import ClusterError, InputError, TraceError
from betimes.workload import Workload, read_trace
from betimes.workload.family_demands import family_demands
from betimes.workload.generators import generate

_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PODS = _DATA / "gpu" / "alibaba_openb" / "openb_pod_list_default.csv.gz"
TRACE = _DATA / "eva" / "eva_pai_200_trace.csv.gz"


@pytest.fixture(scope="module")
def full() -> Workload:
    if not PODS.is_file():
        pytest.skip(f"the public traces are not here: there is no {PODS}")
    return generate(f"eva:pods={PODS}", units=1000, seed=3)


def test_the_published_200_jobs_are_its_beginning(full: Workload) -> None:
    published, first = read_trace(TRACE), generate(f"eva:pods={PODS},jobs=200", units=1000, seed=3)
    for made in (first, full):
        for column in ("submit_s", "work_s", "min_units", "max_units", "gpu", "cpu", "memory_gib"):
            np.testing.assert_array_equal(getattr(made, column)[:200], getattr(published, column), column)
        for column in first.extra:
            ours, theirs = list(made.extra[column][:200]), list(published.extra[column])
            if column != "workload_variant":
                ours, theirs = [float(each) for each in ours], [float(each) for each in theirs]
            assert ours == theirs, column
    assert len(first) == 200


def test_facts_of_the_full_trace(full: Workload) -> None:
    hours = full.work_s / full.max_units / 3600
    assert len(full) == 6274
    assert not full.notes.skipped
    assert hours.mean() == pytest.approx(16.697, abs=0.001)
    assert np.percentile(hours, [50, 80, 95]) == pytest.approx([4.525, 16.382, 96.635], abs=0.001)
    assert full.submit_s.max() / 86400 == pytest.approx(86.9, abs=0.05)
    gpus = Counter((full.gpu * full.max_units).astype(int).tolist())
    assert {g: round(100 * n / 6274, 2) for g, n in gpus.items()} == {
        0: 17.33,
        1: 82.5,
        2: 0.11,
        4: 0.02,
        8: 0.05,
    }
    demands = zip(full.gpu, full.cpu, full.memory_gib, full.max_units, strict=True)
    assert len(set(demands)) == 94


def test_alibaba_durations_and_physical_cores() -> None:
    if not PODS.is_file():
        pytest.skip(f"the public traces are not here: there is no {PODS}")
    own = generate(f"eva:pods={PODS},durations=alibaba", units=1000, seed=3)
    hours = own.work_s / own.max_units / 3600
    assert np.percentile(hours, [50, 80, 95]) == pytest.approx([0.19, 0.96, 5.17], abs=0.005)
    assert hours.mean() == pytest.approx(9.07, abs=0.01)
    assert dict(own.notes.skipped) == {"no run time": 1}
    assert len(own) == 6273
    assert len(generate(f"eva:pods={PODS},cores=physical", units=1000, seed=3)) == 6271


HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time\n"


def test_a_small_list_of_pods(tmp_path: Path) -> None:
    """Failed pods and those that fit nothing are left out; demands are rounded up; a gap of each job is drawn."""
    path = tmp_path / "pods.csv"
    rows = ["a,3500,2000,1,500,Succeeded,0,10", "b,1000,1024,0,0,Failed,0,10", "c,1000,1,9,1000,Running,0,10"]
    rows += ["d,385000,1024,0,0,Running,0,10", "e,384000,1024,0,0,Running,0,10"]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    made = generate(f"eva:pods={path}", units=1, seed=0)
    assert [made.cpu.tolist(), made.memory_gib.tolist(), made.gpu.tolist()] == [
        [4.0, 384.0],
        [2.0, 1.0],
        [1.0, 0.0],
    ]
    assert (np.diff(made.submit_s) >= 0).all()
    assert all(str(each).endswith("[0]") for each in made.extra["workload_variant"])


def test_pods_without_gpus_need_half_the_cores_on_families_without(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    rows = ["a,3500,2000,1,500,Succeeded,0,10", "b,3000,1024,0,0,Running,0,10"]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    same, made = (generate(f"eva:pods={path}{more}", units=1) for more in ("", ",demand=family"))
    assert family_demands(same) is None
    found = family_demands(made)
    assert found is not None
    assert (found.rows.tolist(), found.families) == ([1], ("c7i", "p3", "r7i"))
    assert found.amounts.tolist() == [[[0.0, 1.5, 1.0], [0.0, 3.0, 1.0], [0.0, 1.5, 1.0]]]
    assert same == replace(made, extra={name: made.extra[name] for name in same.extra})


def test_its_jobs_are_for_any_machines(tmp_path: Path) -> None:
    """A cluster that only rents has no units to generate jobs for, and needs none."""
    path = tmp_path / "pods.csv"
    path.write_text(HEADER + "a,3500,2000,1,500,Succeeded,0,10\n")
    cluster = read_cluster("ec2-2023-vcpu")
    made = betimes.generate(f"eva:pods={path}", cluster=cluster)
    assert made.submit_s.tolist() == generate(f"eva:pods={path}", units=7).submit_s.tolist()
    assert betimes.simulate(made, "eva", cluster=cluster).jobs.finished.all()
    with pytest.raises(ClusterError, match="no owned nodes"):
        betimes.generate("demo", cluster=cluster)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,cpu_milli\na,1\n", "line 1, field memory_mib: the column is missing"),
        (HEADER + "a,x,1,1,1,Running,0,1\n", "line 2, field cpu_milli: expected a number"),
        (HEADER + "a,-1,1,1,1,Running,0,1\n", "line 2, field cpu_milli: expected a number from 0"),
        (HEADER + "a,1,1,1,1,Running,0,\n", "line 2, field deletion_time: expected a number"),
    ],
)
def test_lists_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        generate(f"eva:pods={path}", units=1)


def test_a_seed_beyond_the_legacy_generator(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a seed from 0 to 4294967295"):
        generate(f"eva:pods={tmp_path}", units=1, seed=2**32)


def test_every_workload_has_a_profile() -> None:
    assert set(WORKLOADS) <= set(read_profiles())
