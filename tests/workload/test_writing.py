"""Betimes's own files give an equal workload back."""

from __future__ import annotations

import gzip
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.errors import InputError
from betimes.workload import Notes, Workload, read_trace, write
from tests.workload.readers import samples

SUFFIXES = [".csv", ".csv.gz", ".parquet"]
NAMES = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=8)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
AMOUNTS = st.floats(0, 1e12, allow_subnormal=False) | st.just(float("nan"))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    n = draw(st.integers(1, 6))

    def column(each: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(each, min_size=n, max_size=n))

    ids = st.lists(NAMES, min_size=n, max_size=n, unique=True) | st.just(list(range(5, 5 + n)))
    units = column(st.integers(1, 10**6))
    demands = column(
        st.tuples(AMOUNTS, AMOUNTS, AMOUNTS).filter(lambda each: 0 not in each or any(a > 0 for a in each))
    )
    return Workload.from_columns(
        job_id=draw(ids),
        submit_s=column(st.floats(0, 1e12)),
        work_s=column(st.floats(1e-6, 1e15)),
        min_units=[draw(st.integers(1, each)) for each in units],
        max_units=units,
        units_per_task=[draw(st.sampled_from((0, 1, each))) for each in units],
        require=column(st.sampled_from(("", "zone=a", "kind=fast,zone=b"))),
        curve=column(NAMES),
        estimate_s=column(st.floats(1e-6, 1e12) | st.just(float("nan"))),
        user=draw(
            st.lists(NAMES, min_size=n, max_size=n) | st.lists(st.integers(-1, 2**62), min_size=n, max_size=n)
        ),
        status=column(st.integers(-128, 127)),
        qos=column(st.integers(0, 1)),
        priority=column(st.integers(-(2**63), 2**63 - 1)),
        grace_s=column(st.floats(0, 1e15)),
        cpu=[each[0] for each in demands],
        memory_gib=[each[1] for each in demands],
        gpu=[each[2] for each in demands],
        name=draw(NAMES),
        machine_units=draw(st.none() | st.integers(1, 10**9)),
        extra={
            "whole": column(st.integers(-(2**63), 2**63 - 1)),
            "number": column(st.floats()),
            "text, with a comma": np.array(column(TEXTS), np.str_),
        },
        notes=Notes("swf", header=draw(st.dictionaries(NAMES, TEXTS, max_size=2))),
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(workload=workloads())
def test_round_trip_is_exact(suffix: str, workload: Workload) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        write(workload, path)
        back = read_trace(path)
    assert back == workload
    assert back.fingerprint() == workload.fingerprint()
    assert (back.name, back.notes.header) == (workload.name, workload.notes.header)
    assert {name: values.dtype.kind for name, values in back.extra.items()} == {
        name: values.dtype.kind for name, values in workload.extra.items()
    }


def test_the_choice_of_tasks_is_a_column_only_where_a_job_has_one(tmp_path: Path) -> None:
    plain = Workload.from_columns(submit_s=[0, 1], work_s=1.0, max_units=4)
    write(plain, tmp_path / "plain.csv")
    assert "units_per_task" not in (tmp_path / "plain.csv").read_text()
    (tmp_path / "chosen.csv").write_text("submit_s,run_s,max_units,units_per_task\n0,1,4,\n1,1,4,2\n")
    chosen = read_trace(tmp_path / "chosen.csv")
    assert chosen.units_per_task.tolist() == [0, 2]
    (tmp_path / "wrong.csv").write_text("submit_s,run_s,max_units,units_per_task\n0,1,4,3\n")
    with pytest.raises(InputError, match=r"wrong.csv, line 2, .*units_per_task.*divisor of max_units.*3"):
        read_trace(tmp_path / "wrong.csv")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_required_labels_are_a_column_only_where_a_job_requires_some(suffix: str, tmp_path: Path) -> None:
    plain = Workload.from_columns(submit_s=[0, 1], work_s=1.0)
    assert "require" not in plain.stated_names
    some = Workload.from_columns(submit_s=[0, 1, 2], work_s=1.0, require=["", "zone=a", "kind=fast,zone=a"])
    write(some, tmp_path / f"some{suffix}")
    back = read_trace(tmp_path / f"some{suffix}")
    assert back == some
    assert (
        back.fingerprint()
        == some.fingerprint()
        != replace(some, require=plain.require[[0, 0, 0]]).fingerprint()
    )
    assert [job.require for job in plain.concatenate(back)] == ["", "", "", "zone=a", "kind=fast,zone=a"]
    assert back[1:].require.tolist() == ["zone=a", "kind=fast,zone=a"]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", samples.TEXTS)
def test_converted_traces_are_equal(name: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(samples.TEXTS[name])
    trace = read_trace(tmp_path / "a")
    write(trace, tmp_path / f"b{suffix}")
    back = read_trace(tmp_path / f"b{suffix}")
    assert back == trace
    assert back.notes.header == trace.notes.header


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_workload_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(samples.SWF)
    for name in ("b", "c"):
        write(read_trace(tmp_path / "a"), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"b{suffix}").read_bytes() == (tmp_path / f"c{suffix}").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", f"b{suffix}", f"c{suffix}"]


def test_csv_is_plain_to_read(tmp_path: Path) -> None:
    w = Workload.from_columns(
        submit_s=[0, 2.5],
        work_s=[1, 3],
        user=["ada", "bob"],
        priority=[0, -2],
        grace_s=[30, 0],
        name="w",
        extra={"k": 1},
    )
    w.to_csv(tmp_path / "w.csv.gz")
    assert gzip.decompress((tmp_path / "w.csv.gz").read_bytes()).decode().splitlines() == [
        '# betimes-workload {"extra": {"k": "int64"}, "header": {}, "machine_units": null, "name": "w"}',
        '"job_id","submit_s","work_s","min_units","max_units","curve","estimate_s","user_name","status","qos",'
        '"priority","grace_s","cpu","memory_gib","gpu","k"',
        '0,0,1,1,1,"linear",,"ada",-1,0,0,30,,,,1',
        '1,2.5,3,1,1,"linear",,"bob",-1,0,-2,0,,,,1',
    ]


def test_names_that_cannot_be_written(tmp_path: Path) -> None:
    w = Workload.from_columns(submit_s=[0], work_s=1)
    with pytest.raises(
        InputError, match=r"a\.txt: expected a name that ends in \.parquet, \.csv or \.csv\.gz"
    ):
        write(w, tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"a\.csv: cannot be written: No such file"):
        w.to_csv(tmp_path / "nowhere" / "a.csv")


def test_parquet_of_others(tmp_path: Path) -> None:
    """Any Parquet file with the canonical names will do, whatever its types of numbers and text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    columns = {
        "submit_s": pa.array([0, 1], pa.int32()),
        "run_s": pa.array([2.5, 3], pa.float32()),
        "max_units": pa.array([2.0, 1.0]),
        "curve": pa.array(["linear", None]).dictionary_encode(),
        "user": pa.array(["ada", None]),
        "estimate_s": pa.array([None, 5.0]),
        "late": pa.array([True, False]),
    }
    pq.write_table(pa.table(columns), path)
    w = read_trace(path)
    assert w.work_s.tolist() == [5, 3]
    assert [(job.curve, job.user) for job in w] == [("linear", "ada"), ("linear", -1)]
    np.testing.assert_array_equal(w.estimate_s, [np.nan, 5])
    assert w.extra["late"].tolist() == [1, 0]

    pq.write_table(pa.table(columns | {"max_units": pa.array([2, None])}), path)
    with pytest.raises(InputError, match=r"line 2, field max_units: expected a whole number"):
        read_trace(path)
    assert len(read_trace(path, on_bad_rows="skip")) == 1
    pq.write_table(pa.table(columns | {"when": pa.array([[1], [2]])}), path)
    with pytest.raises(
        InputError, match=r"field when: expected numbers or text, found a column of type list"
    ):
        read_trace(path)
