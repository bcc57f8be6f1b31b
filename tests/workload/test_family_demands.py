"""Columns that say what a unit needs on each family of machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.workload import Workload, read_trace
from betimes.workload.family_demands import family_columns, family_demands, family_of_column

CSV = """submit_s,work_s,max_units,gpu,cpu,memory_gib,cpu.p3,cpu.c7i,memory_gib.c7i
0,10,1,0,12,40,12,6,
1,10,1,1,4,24,,,
2,10,1,,,,,3,7
3,10,1,0,0,8,,2,
"""


def jobs(**extra: Any) -> Workload:
    return Workload.from_columns(submit_s=[0.0, 1.0], work_s=[1.0, 1.0], cpu=[4.0, np.nan], extra=extra)


def test_a_column_is_about_a_family_or_not() -> None:
    names = ("cpu.p3", "gpu.a.b", "memory_gib.x", "cpu", "cpu.", "memory.p3", "cpu_p3")
    assert [family_of_column(name) for name in names] == ["p3", "a.b", "x", None, None, None, None]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_a_trace_file_has_them(tmp_path: Path, suffix: str) -> None:
    text = tmp_path / "trace.csv"
    text.write_text(CSV)
    written = tmp_path / f"again{suffix}"
    read = read_trace(text)
    (read.to_parquet if suffix == ".parquet" else read.to_csv)(written)
    assert read_trace(written) == read
    found = family_demands(read_trace(written))
    assert found is not None
    assert found.rows.tolist() == [0, 2, 3]
    assert found.families == ("c7i", "p3")
    nan = np.nan
    expected = [
        [[0, 6, 40], [0, 12, 40]],  # without an entry of its own what the column for all families says
        [[0, 3, 7], [nan, nan, nan]],
        [[0, 2, 8], [nan, nan, nan]],
    ]
    np.testing.assert_array_equal(found.amounts, expected)
    assert found.named(1) == ["c7i"]
    np.testing.assert_array_equal(found.on(("r7i", "p3")), [[[nan] * 3, e[1]] for e in expected])


def test_a_trace_without_such_columns_or_with_empty_ones_has_none() -> None:
    assert family_demands(jobs()) is None
    assert family_demands(jobs(**{"cpu.p3": [np.nan, np.nan]})) is None
    assert family_demands(jobs(**{"cpu.p3": ["", ""]})) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, -1.0], "job 1, field cpu.p3: expected a number of 0 or more, or nothing .* found -1"),
        ([np.inf, 1.0], "job 0, field cpu.p3: expected a number of 0 or more, .* found inf"),
        (["", "many"], "job 1, field cpu.p3: expected a number of 0 or more, .* found many"),
        (
            [1.0, 0.0],
            "job 1, field cpu.p3: expected some demand of gpu, cpu or memory_gib above 0 on a family",
        ),
    ],
)
def test_what_is_no_demand_is_refused(values: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        family_demands(jobs(**{"cpu.p3": values}))


def test_a_workload_without_them_keeps_its_demand_when_it_is_joined() -> None:
    joined = jobs(**{"cpu.p3": np.array([2, 3])}).concatenate(jobs())
    found = family_demands(joined)
    assert found is not None
    assert sorted(joined.job_id[found.rows].tolist()) == [0, 1]


def test_a_demand_on_any_family_and_on_one_contradicts_itself() -> None:
    with pytest.raises(InputError, match="row 0: it has a demand on any family and on p3"):
        family_columns([{"any": (0, 1, 1), "p3": (0, 2, 1)}], np.array([1]))
