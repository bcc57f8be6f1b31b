"""Profiles of workloads: those of Eva, and files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from betimes_papers.workloads.profiles import Profile, read_profiles

from betimes.errors import TraceError
from betimes.workload.family_demands import family_columns

HEADER = (
    "workload,num_tasks,instance_family,gpus,cpus,ram_gib,full_throughput_iter_per_s,init_delay_s,fetch_delay_s,"
    "build_image_delay_s,kill_delay_s,upload_delay_s\n"
)


def test_those_of_eva_are_there() -> None:
    profiles = read_profiles()
    demand = {"p3": (0, 10, 8), "c7i": (0, 4, 8), "r7i": (0, 4, 8)}
    assert profiles["a3c"] == Profile("a3c", 1, demand, 12.736207246780396, 10, 1, 10, 1, 1)
    assert profiles["gpt2"] == Profile("gpt2", 1, {"any": (4, 4, 10)}, 3.305535078048706, 15, 10, 10, 1, 20)
    assert (profiles["two_node_Resnet18"].tasks, profiles["two_node_Resnet18"].iterations_per_s) == (2, 2.6)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,1,any,1,x,1,1,1,1,1,1,1"], "line 2, field cpus: expected a number"),
        (["a,1,any,1,1,1,1,1,-1,1,1,1"], "line 2, field fetch_delay_s: expected a number from 0"),
        (["a,1.5,any,1,1,1,1,1,1,1,1,1"], "line 2, field num_tasks: expected a whole number from 1"),
        (
            ["a,1,p3,1,1,1,1,1,1,1,1,1", "a,1,c7i,1,1,1,2,1,1,1,1,1"],
            "line 3, field full_throughput_iter_per_s: another",
        ),
        (
            ["a,1,p3,1,1,1,1,1,1,1,1,1", "a,1,p3,1,2,1,1,1,1,1,1,1"],
            "line 3, field cpus: a task of workload a needs",
        ),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, lines: list[str], message: str) -> None:
    path = tmp_path / "profiles.csv"
    path.write_text(HEADER + "\n".join(lines) + "\n")
    with pytest.raises(TraceError, match=message):
        read_profiles(path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "profiles.csv"
    path.write_text("workload,gpus\na,1\n")
    with pytest.raises(TraceError, match="line 1, field instance_family: the column is missing"):
        read_profiles(path)


def test_the_columns_of_evas_workloads() -> None:
    profiles = read_profiles()
    columns = family_columns([profiles[name].demand for name in ("gcn", "vit")], np.array([1, 2]))
    found = {name: values.tolist() for name, values in columns.items() if not np.isnan(values[0])}
    assert found == {
        "gpu.c7i": [0.0, pytest.approx(np.nan, nan_ok=True)],
        "cpu.c7i": [6.0, pytest.approx(np.nan, nan_ok=True)],
        "memory_gib.c7i": [40.0, pytest.approx(np.nan, nan_ok=True)],
        "gpu.p3": [0.0, pytest.approx(np.nan, nan_ok=True)],
        "cpu.p3": [12.0, pytest.approx(np.nan, nan_ok=True)],
        "memory_gib.p3": [40.0, pytest.approx(np.nan, nan_ok=True)],
        "gpu.r7i": [0.0, pytest.approx(np.nan, nan_ok=True)],
        "cpu.r7i": [6.0, pytest.approx(np.nan, nan_ok=True)],
        "memory_gib.r7i": [40.0, pytest.approx(np.nan, nan_ok=True)],
    }
    assert [columns[name][1] for name in ("gpu", "cpu", "memory_gib")] == [1.0, 4.0, 30.0]
