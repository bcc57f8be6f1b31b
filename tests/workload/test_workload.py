"""Building, selecting, moving and scaling workloads."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.errors import InputError
from betimes.workload import Job, Notes, Workload


def small() -> Workload:
    return Workload.from_columns(
        job_id=[10, 11, 12, 13],
        submit_s=[100, 300, 200, 200],
        work_s=[40, 10, 20, 30],
        max_units=[4, 1, 2, 2],
        curve=["linear", "power:0.8", "linear", "amdahl:0.1"],
        user=["ada", "bob", "ada", "cyd"],
        extra={"queue": [1, 2, 3, 4], "colour": ["r", "g", "b", "a"]},
        name="small",
    )


def test_rows_are_sorted_stably_by_submission() -> None:
    w = small()
    assert w.job_id.tolist() == [10, 12, 13, 11]
    assert w.submit_s.tolist() == [100, 200, 200, 300]
    assert w.extra["colour"].tolist() == ["r", "b", "a", "g"]


def test_defaults() -> None:
    w = Workload.from_columns(submit_s=[0, 1], work_s=5.0)
    assert w.job_id.tolist() == [0, 1]
    assert w.min_units.tolist() == w.max_units.tolist() == [1, 1]
    assert (w.curve_names, w.user_names, w.machine_units, w.extra) == (("linear",), (), None, {})
    assert np.isnan([w.estimate_s, w.cpu, w.memory_gib, w.gpu]).all()
    assert w.user.tolist() == w.status.tolist() == [-1, -1]
    assert w.qos.tolist() == w.priority.tolist() == w.grace_s.tolist() == [0, 0]
    kinds = {
        "job_id": "int64",
        "submit_s": "float64",
        "curve": "int32",
        "user": "int64",
        "status": "int8",
        "qos": "int8",
        "priority": "int64",
        "grace_s": "float64",
    }
    assert {name: str(getattr(w, name).dtype) for name in kinds} == kinds


def test_one_job() -> None:
    job = small()[1]
    assert isinstance(job, Job)
    assert (job.job_id, job.submit_s, job.work_s, job.max_units) == (12, 200, 20, 2)
    assert (job.curve, job.user) == ("linear", "ada")
    assert small()[-1].job_id == 11
    assert [job.job_id for job in small()] == [10, 12, 13, 11]
    with pytest.raises(IndexError):
        small()[4]


def test_selecting_rows() -> None:
    w = small()
    assert w[1:3].job_id.tolist() == [12, 13]
    assert w[::-1].job_id.tolist() == [10, 12, 13, 11]
    assert w[w.max_units == 2].job_id.tolist() == [12, 13]
    assert w[[3, 0]].job_id.tolist() == [10, 11]
    assert w[[]].job_id.tolist() == []
    assert w[1:3].extra["queue"].tolist() == [3, 4]
    with pytest.raises(InputError, match="selected twice"):
        w[[1, 1]]


def test_head_and_sample() -> None:
    w = small()
    assert w.head(2).job_id.tolist() == [10, 12]
    assert w.head(9) == w
    assert len(w.sample(2, seed=1)) == 2
    assert w.sample(2, seed=1) == w.sample(2, seed=1)
    assert w.sample(99, seed=1) == w
    seen = {tuple(w.sample(2, seed=seed).job_id.tolist()) for seed in range(40)}
    assert len(seen) == 6
    for wrong in (w.head, lambda n: w.sample(n, 0)):
        with pytest.raises(InputError, match="0 or more"):
            wrong(-1)


def test_columns_are_read_only_also_in_copies() -> None:
    w = small()
    for copy in (w, pickle.loads(pickle.dumps(w)), w[1:], w.shift(5)):
        with pytest.raises(ValueError, match="read-only"):
            copy.submit_s[0] = 7
        with pytest.raises(ValueError, match="read-only"):
            copy.extra["queue"][0] = 7
    assert pickle.loads(pickle.dumps(w)) == w


def test_building_does_not_freeze_or_share_the_callers_arrays() -> None:
    times = np.array([0.0, 1.0])
    w = Workload.from_columns(submit_s=times, work_s=1.0)
    times[0] = 0.5
    assert w.submit_s[0] == 0


def test_shift() -> None:
    assert small().shift().submit_s.tolist() == [0, 100, 100, 200]
    assert small().shift(to_s=50).submit_s.tolist() == [50, 150, 150, 250]
    with pytest.raises(InputError, match="job 10, field submit_s"):
        small().shift(to_s=-1)


def test_offered_load_and_scaling() -> None:
    w = small()
    assert w.offered_load(units=4) == pytest.approx(100 / (4 * 200))
    halved = w.offered_load(units=4, speedup_at_max=w.max_units / 2)
    assert halved == pytest.approx(2 * 100 / (4 * 200))
    scaled = w.scale_load(0.5, units=4)
    assert scaled.offered_load(units=4) == pytest.approx(0.5)
    assert scaled.submit_s[0] == 100
    assert scaled.job_id.tolist() == w.job_id.tolist()
    assert Workload.from_columns(submit_s=[], work_s=[]).offered_load(1) == 0
    assert small()[:1].offered_load(1) == float("inf")
    with pytest.raises(InputError, match="cannot be scaled"):
        small()[:1].scale_load(0.5, 1)
    with pytest.raises(InputError, match="load above 0"):
        w.scale_load(0, 4)
    with pytest.raises(InputError, match="at least 1 unit"):
        w.offered_load(0)


@given(load=st.floats(0.01, 10), units=st.integers(1, 1000))
def test_scaling_reaches_any_load(load: float, units: int) -> None:
    assert small().scale_load(load, units).offered_load(units) == pytest.approx(load)


def test_fingerprint_ignores_codes_names_and_extra_but_no_job() -> None:
    w = small()
    other = Workload.from_columns(
        job_id=w.job_id,
        submit_s=w.submit_s,
        work_s=w.work_s,
        max_units=w.max_units,
        curve=[2, 2, 0, 1],
        curve_names=["amdahl:0.1", "power:0.8", "linear", "unused"],
        user=[1, 1, 0, 2],
        user_names=["cyd", "ada", "bob"],
        name="other",
        machine_units=9,
        notes=Notes("swf"),
    )
    assert other.fingerprint() == w.fingerprint()
    assert other != w
    assert w[1:].fingerprint() != w.fingerprint()
    assert w.shift().fingerprint() != w.fingerprint()
    plain = {"submit_s": [0, 1], "work_s": 1.0}
    marked = [plain, {**plain, "grace_s": [0, 5]}, {**plain, "priority": [0, 5]}, {**plain, "qos": [0, 1]}]
    assert len({Workload.from_columns(**columns).fingerprint() for columns in marked}) == 4


def test_the_choice_of_tasks_counts_only_where_a_job_has_one() -> None:
    plain = Workload.from_columns(submit_s=[0, 1], work_s=1.0, max_units=4)
    chosen = Workload.from_columns(submit_s=[0, 1], work_s=1.0, max_units=4, units_per_task=[0, 2])
    assert "units_per_task" not in plain.stated_names
    assert chosen.fingerprint() != plain.fingerprint()
    assert chosen[:1].fingerprint() == plain[:1].fingerprint()
    assert [job.units_per_task for job in chosen.concatenate(plain)] == [0, 0, 2, 0]


@pytest.mark.parametrize(("found", "expected"), [(3, "a divisor of max_units"), (-1, "or more units")])
def test_tasks_of_a_job_are_equal(found: int, expected: str) -> None:
    with pytest.raises(
        InputError, match=f"job 1, field units_per_task: expected .*{expected}, found {found}"
    ):
        Workload.from_columns(submit_s=[0, 1], work_s=1.0, max_units=4, units_per_task=[2, found])


def test_fingerprint_is_pinned() -> None:
    # The same on every machine and in every version that keeps the columns: results refer to it.
    assert small().fingerprint() == "5586014404ced7e751e7bf567e3a71d0e0f7493c9bcf76b83d826ce23dd1cae1"


def test_equality() -> None:
    w = small()
    assert w == small()
    assert hash(w) == hash(small())
    assert w != w[1:]
    assert w != 3
    plain = Workload.from_columns(submit_s=[0, 1], work_s=1.0)
    assert plain != Workload.from_columns(submit_s=[0, 1], work_s=1.0, machine_units=4)
    assert plain != Workload.from_columns(submit_s=[0, 1], work_s=1.0, extra={"a": 1})
    assert plain == Workload.from_columns(submit_s=[-0.0, 1], work_s=1.0, name="b")
    assert plain != Workload.from_columns(submit_s=[0, 1], work_s=1.0, job_id=["0", "b"])


def test_numbers_written_as_text_are_numbers() -> None:
    plain = Workload.from_columns(submit_s=[0, 1], work_s=1.0, user=[7, -1])
    texts = Workload.from_columns(submit_s=[0, 1], work_s=1.0, job_id=["0", "1"], user=["7", ""])
    assert texts == plain
    assert (texts.job_id.dtype.kind, texts.user_names) == ("i", ())
    part = Workload.from_columns(submit_s=[0, 1, 2], work_s=1.0, job_id=["0", "1", "x"], user=["7", "", "x"])[
        :2
    ]
    assert part.job_id.dtype.kind == "U"
    assert part == plain
    assert part.fingerprint() == plain.fingerprint()
    zero = Workload.from_columns(submit_s=[0, 1], work_s=1.0, job_id=["0", "01"])
    assert zero.job_id.tolist() == ["0", "01"]


def test_concatenate() -> None:
    a = Workload.from_columns(
        job_id=[1, 2],
        submit_s=[0, 10],
        work_s=1,
        user=[7, -1],
        machine_units=4,
        name="a",
        extra={"x": 1, "y": "t"},
    )
    b = Workload.from_columns(
        job_id=[2, 3],
        submit_s=[5, 10],
        work_s=2,
        user=["eve", "7"],
        machine_units=4,
        name="b",
        extra={"x": 0.5},
    )
    both = Workload.concatenate(a, b)
    assert both == a.concatenate(b)
    assert both.job_id.tolist() == [1, 3, 2, 4]
    assert both.submit_s.tolist() == [0, 5, 10, 10]
    assert [job.user for job in both] == ["7", "eve", -1, "7"]
    assert both.extra["x"].tolist() == [1, 0.5, 1, 0.5]
    assert both.extra["y"].tolist() == ["t", "", "t", ""]
    assert (both.name, both.machine_units) == ("a+b", 4)
    assert both.notes.warnings == ("job ids of workload 2 (b) collided and were raised by 1",)
    assert a.concatenate() is a


def test_concatenate_text_and_number_ids() -> None:
    a = Workload.from_columns(job_id=["1", "x"], submit_s=[0, 0], work_s=1)
    b = Workload.from_columns(job_id=[1, 2], submit_s=[1, 1], work_s=1)
    both = a.concatenate(b)
    assert both.job_id.tolist() == ["1", "x", "2/1", "2/2"]
    assert both.notes.warnings == ("job ids of workload 2 (workload) collided and begin with 2/ now",)


WRONG = [
    ({"submit_s": [0, -1]}, r"job 1, field submit_s: expected a finite time of 0 s or later, found -1"),
    ({"submit_s": [0, np.nan]}, r"job 1, field submit_s: .* found nan"),
    ({"work_s": [1, 0]}, r"job 1, field work_s: .* above 0, found 0"),
    ({"work_s": [np.inf, 1]}, r"job 0, field work_s"),
    ({"min_units": [1, 0]}, r"job 1, field min_units: expected at least 1 unit, found 0"),
    ({"min_units": 2}, r"job 0, field max_units: expected at least min_units, found 1"),
    ({"max_units": 10**12}, r"job 0, field max_units: expected at most 1000000000 units"),
    ({"max_units": [1, 1.5]}, r"row 1, field max_units: expected a whole number \(int64\), found 1.5"),
    ({"status": [1, 300]}, r"row 1, field status: expected a whole number \(int8\), found 300"),
    ({"qos": 2}, r"job 0, field qos"),
    ({"user": -2}, r"job 0, field user"),
    ({"user": [0, 1], "user_names": ["ada"]}, r"job 1, field user"),
    (
        {"curve": [0, 1], "curve_names": ["linear"]},
        r"job 1, field curve: expected a code of curve_names, found 1",
    ),
    ({"curve": ""}, r"field curve_names: expected a printable name"),
    ({"estimate_s": [1, 0]}, r"job 1, field estimate_s"),
    ({"cpu": -1}, r"job 0, field cpu"),
    ({"gpu": np.inf}, r"job 0, field gpu"),
    (
        {"gpu": [np.nan, 0]},
        r"job 1, field gpu: expected some demand of gpu, cpu or memory_gib above 0 .* found 0",
    ),
    ({"cpu": [1, 0], "memory_gib": [0, 0]}, r"job 1, field cpu: expected some demand"),
    ({"gpu": 0, "cpu": [0, 1], "memory_gib": 0}, r"job 0, field gpu: expected some demand"),
    (
        {"grace_s": [0, -1]},
        r"job 1, field grace_s: expected a finite number of seconds of 0 or more, found -1",
    ),
    ({"grace_s": np.nan}, r"job 0, field grace_s: .* found nan"),
    ({"grace_s": 1e16}, r"job 0, field grace_s: expected at most 1e\+15 s"),
    ({"priority": [1, 0.5]}, r"row 1, field priority: expected a whole number \(int64\), found 0.5"),
    ({"priority": 2.0**63}, r"field priority"),
    ({"job_id": [5, 5]}, r"job 5, field job_id: used by more than one job"),
    ({"job_id": ["a", "b c "]}, r"field job_id: expected a printable name without blanks around it"),
    ({"work_s": [1, 2, 3]}, r"field work_s: expected one value or 2, found an array of shape \(3,\)"),
    ({"work_s": ["a", "b"]}, r"field work_s: expected numbers"),
    ({"extra": {"work_s": 1}}, r"field 'work_s': not a name that a further column can have"),
    ({"extra": {"a": [1]}}, r"field a: expected one value or 2"),
    ({"extra": {"a": ["x" * 300, ""]}}, r"job '0', field a: expected at most 256 characters"),
    ({"machine_units": 0}, r"field machine_units: expected at least 1, found 0"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_validation_names_job_and_field(change: dict[str, object], message: str) -> None:
    columns: dict[str, object] = {"submit_s": [0, 1], "work_s": [1, 1], **change}
    with pytest.raises(InputError, match=message):
        Workload.from_columns(**columns)  # pyright: ignore[reportArgumentType]


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, betimes.workload; print([m for m in ('numpy', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
