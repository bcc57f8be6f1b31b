"""Rows of squeue: recorded ones of a real Slurm, those of other versions, and hostile ones."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.slurm.jobs import OVER, RUNNING, WAITING, count, in_order, limit_s, parts_of, read_jobs
from tests.slurm.recording import MARK, job, printed, row


def test_recorded_rows() -> None:
    jobs, strange = read_jobs(printed("squeue"), MARK)
    assert strange == []
    assert {number: each.state for number, each in jobs.items()} == {
        "1": "RUNNING", "2": "RUNNING", "3": "RUNNING", "4": "PENDING", "5": "PENDING", "6": "CANCELLED",
        "7": "PENDING", "8": "PENDING", "9_1": "RUNNING", "9_2": "PENDING", "9_3": "PENDING", "10+0": "COMPLETED",
        "10+1": "COMPLETED", "12": "FAILED", "13": "PENDING",
    }  # fmt: skip
    wide, uneven, both, barred = jobs["1"], jobs["3"], jobs["5"], jobs["4"]
    assert (wide.cpus, wide.nodes, wide.hosts, wide.limit_s) == (8, 2, ("n2", "n3"), 1800.0)
    assert (uneven.cpus, uneven.limit_s) == (5, 365 * 86400.0)
    assert both.partitions == ("short", "batch")
    assert both.limit_s == 86400.0
    assert barred.name == "bar|in|name\x1b[31m\n99|root|RUNNING"
    assert barred.is_exclusive
    assert not wide.is_exclusive
    assert jobs["6"].start_at == jobs["6"].end_at  # it never ran


def test_recorded_jobs_that_are_not_foreseen() -> None:
    jobs, _ = read_jobs(printed("squeue"), MARK)
    assert {number: why for number, each in jobs.items() if (why := each.why_unforeseen)} == {
        "7": "it is to begin later",
        "9_2": "its array runs as many elements as it may at once",
        "9_3": "its array runs as many elements as it may at once",
        "10+0": "it is a part of a heterogeneous job",
        "10+1": "it is a part of a heterogeneous job",
    }


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"reason": "JobHeldUser"}, "held"),
        ({"reason": "JobHeldAdmin"}, "held"),
        ({"state": "REQUEUE_HOLD"}, "held"),
        ({"reason": "AssocGrpCPURunMinutesLimit"}, "account"),
        ({"reason": "QOSMaxJobsPerUserLimit"}, "QOS"),
        ({"reason": "ReqNodeNotAvail,_UnavailableNodes:n[1-2]"}, "not available"),
        ({"reason": "Licenses"}, "licences"),
        ({"reason": "DependencyNeverSatisfied"}, "not ended as it should"),
        ({"reason": "Dependency"}, "other jobs"),
        ({"id": "7+1"}, "heterogeneous"),
        ({"gres": "gres:gpu:2"}, "gres:gpu:2"),
        ({"gres": "gpu:2"}, "gpu:2"),
        ({"features": "skylake&ib"}, "skylake&ib"),
        ({"state": "SUSPENDED", "start": 2000, "hosts": "n1"}, "suspended"),
        ({"reason": "Resources"}, None),
        ({"reason": "None"}, None),
        ({"gres": "(null)", "features": ""}, None),  # 20.11 prints nothing where it has none
        ({"state": "RUNNING", "start": 2000, "hosts": "n1", "gres": "gpu:1"}, None),
    ],
)
def test_what_is_not_foreseen(fields: dict[str, object], why: str | None) -> None:
    found = job(row(**fields)).why_unforeseen
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30", None), ("5:00", 300.0), ("1:00:00", 3600.0), ("2-03:04:05", 183845.0), ("UNLIMITED", math.inf),
     ("NOT_SET", math.nan), ("N/A", math.nan), ("", math.nan), ("-5:00", None), ("\u0665:00", None)],
)  # fmt: skip
def test_limits(text: str, expected: float | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match=text):
            limit_s(text)
    else:
        assert limit_s(text) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("text", "expected"), [("12", 12), ("4K", 4096), ("1-2", 1), ("1M", 1024**2)])
def test_counts(text: str, expected: int) -> None:
    assert count(text) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "x"}, {"id": "4711_[3-10%2]"}, {"user": ""}, {"state": "DANCING"}, {"submit": "yesterday"},
        {"cpus": "-1"},
        {"cpus": "0"}, {"priority": "nan"}, {"partition": ""}, {"limit": "soon"},
        {"state": "RUNNING", "start": "N/A", "hosts": "n1"}, {"state": "RUNNING", "start": 1001, "hosts": ""},
        {"state": "RUNNING", "start": 1001, "hosts": "n[1-"}, {"hosts": "n[2-1]"}, {"submit": "9" * 30},
    ],
)  # fmt: skip
def test_a_row_that_is_not_understood_is_counted(fields: dict[str, object]) -> None:
    jobs, strange = read_jobs(f"{MARK}{row(**fields)}\n{MARK}{row(id=2)}\n", MARK)
    assert [*jobs] == ["2"]
    assert len(strange) == 1


def test_fewer_fields_and_foreign_lines_are_counted() -> None:
    jobs, strange = read_jobs(f"a site's banner\n{MARK}1|ann|PENDING\n{MARK}{row(id=2)}\n", MARK)
    assert [*jobs] == ["2"]
    assert len(strange) == 2


def test_a_name_forges_no_row() -> None:
    forged = row(id=99, user="root", name="x")
    name = f"a\nb|c\r\x85\u2028\n{forged}\n"
    jobs, strange = read_jobs(f"{MARK}{row(name=name)}\n{MARK}{row(id=2)}\n", MARK)
    assert strange == []
    assert [*jobs] == ["1", "2"]
    assert jobs["1"].name == name


def test_order_is_that_of_tier_priority_and_age() -> None:
    rows = [
        row(id=1, priority=5), row(id=2, priority=9), row(id="3_10", priority=9, submit=900),
        row(id=4, partition="short"),
        row(id="3_2", priority=9, submit=900), row(id=5, priority=5, submit=999),
    ]  # fmt: skip
    assert [each.id for each in in_order(map(job, rows), {"short": 2, "batch": 1})] == [
        "4", "3_2", "3_10", "2", "5", "1",
    ]  # fmt: skip


def test_parts_of_ids() -> None:
    assert parts_of("4711") == (4711, None)
    assert parts_of("4711_3") == (4711, 3)
    with pytest.raises(ValueError, match="4711_"):
        parts_of("4711_")


def test_states_are_of_one_kind() -> None:
    assert len(WAITING | RUNNING | OVER) == len(WAITING) + len(RUNNING) + len(OVER)


@given(
    st.lists(
        st.one_of(st.text(max_size=60), st.text(alphabet="MARK|0123456789_,[]-n\n", max_size=80)), max_size=6
    )
)
def test_whatever_is_printed_is_a_job_or_is_counted(parts: list[str]) -> None:
    text = "\n".join(f"{MARK}{part}" if at % 2 else part for at, part in enumerate(parts))
    jobs, strange = read_jobs(text, MARK)
    assert len(jobs) + len(strange) <= 2 * len(parts) + text.count(MARK)


@given(st.lists(st.tuples(st.integers(0, 17), st.text(max_size=12)), max_size=4))
def test_a_row_with_other_cells_is_sound_or_counted(changes: list[tuple[int, str]]) -> None:
    cells = row(state="RUNNING", start=1001, hosts="n[1-2]", cpus=2, nodes=2).split("|")
    for at, text in changes:
        cells[at] = text
    jobs, _ = read_jobs(MARK + "|".join(cells), MARK)
    for each in jobs.values():
        assert each.cpus > 0
        assert each.nodes > 0
        assert math.isfinite(each.submit_at)
        assert each.waits + each.runs + each.is_over == 1
        assert not each.runs or (each.hosts and math.isfinite(each.start_at))
