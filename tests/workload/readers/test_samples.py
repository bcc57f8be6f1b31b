"""Every column of a small file of every format, as the mapping in the reader's docstring says."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from betimes.errors import TraceError
from betimes.workload import FORMATS, Workload, read_trace
from tests.workload.readers import samples

Put = Callable[[bytes, str], Path]
NAN = float("nan")


def columns(workload: Workload, *names: str) -> list[list[object]]:
    return [getattr(workload, name).tolist() for name in names]


def same(found: object, expected: object) -> None:
    np.testing.assert_array_equal(found, expected)


def test_swf(put: Put) -> None:
    w = read_trace(put(samples.SWF, "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [[1, 2], [0, 10], [400, 400]]
    assert columns(w, "min_units", "max_units", "user", "status") == [[4, 8], [4, 8], [7, -1], [1, 0]]
    same(w.estimate_s, [200, NAN])
    same(w.cpu, [1, 1])
    same(w.memory_gib, [1, NAN])
    same(w.gpu, [NAN, NAN])
    assert w.job_id.dtype == np.int64
    assert w.machine_units == 64
    assert dict(w.notes.skipped) == {
        "piece of a job": 1,
        "cancelled before start": 1,
        "no run time": 1,
        "no processors": 1,
    }
    assert w.notes.format == "swf"
    assert w.notes.header["MaxProcs"] == "64 (dual CPU)\ncontinued text\na line of the header in the middle"
    assert w.notes.header["Computer"] == "a machine"
    same(w.extra["recorded_wait_s"], [5, NAN])
    same(w.extra["allocated_units"], [4, -1])
    same(w.extra["cpu_time_s"], [98.5, NAN])
    same(w.extra["memory_used_kib"], [1024, NAN])
    same(w.extra["requested_units"], [4, 8])
    same(w.extra["memory_requested_kib"], [1048576, NAN])
    same(w.extra["preceding_job"], [-1, 1])
    same(w.extra["think_time_s"], [NAN, 30])
    for name, values in {
        "group": [2, -1],
        "application": [3, -1],
        "queue": [1, -1],
        "partition": [1, -1],
    }.items():
        same(w.extra[name], values)


def test_swf_machine_without_maxprocs(put: Put) -> None:
    line = b"1 0 0 1 1 1 -1 1 1 -1 1 1 1 1 1 1 -1 -1\n"
    assert read_trace(put(b"; MaxNodes: 12\n" + line, "a.swf")).machine_units == 12
    assert read_trace(put(b"; MaxProcs: 1,024\n" + line, "a.swf")).machine_units == 1024
    assert read_trace(put(line, "a.swf")).machine_units is None
    odd = read_trace(put(b"; MaxProcs: many\n" + line, "a.swf"))
    assert odd.machine_units is None
    assert odd.notes.warnings == ("header MaxProcs: expected a whole number, found 'many'",)


def test_philly_pcs(put: Put) -> None:
    w = read_trace(put(samples.PHILLY_PCS, "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [[0, 1, 3], [0, 6, 9], [16482.5, 16602, 100]]
    assert columns(w, "min_units", "max_units", "gpu") == [[1, 1, 1], [1, 4, 8], [1, 1, 1]]
    assert [job.curve for job in w] == ["TransformerModel256", "VggnetModel256", "TransformerModel256"]
    assert w.machine_units == 64
    assert dict(w.notes.skipped) == {"commented out": 1}


def test_philly_pcs_skipped_row_still_moves_the_clock(put: Put) -> None:
    w = read_trace(put(samples.PHILLY_PCS.replace(b"16602.0", b"none"), "sample"), on_bad_rows="skip")
    assert columns(w, "job_id", "submit_s") == [[0, 3], [0, 9]]
    assert dict(w.notes.skipped) == {
        "commented out": 1,
        "service: expected a number above 0 and at most 1e+15": 1,
    }


def test_philly_jobs(put: Put) -> None:
    w = read_trace(put(samples.PHILLY_JOBS, "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [[0, 1], [0, 10], [17921552, 60]]
    assert columns(w, "min_units", "max_units", "gpu") == [[8, 1], [8, 1], [1, 1]]
    assert w.extra["cluster"].tolist() == ["7f04ca", "11cb48"]
    assert dict(w.notes.skipped) == {"no run time": 1}
    assert w.notes.header["UnixStartTime"] == "1504521041"


def test_openb(put: Put) -> None:
    w = read_trace(put(samples.OPENB, "sample"))
    assert columns(w, "submit_s", "work_s", "max_units") == [[0, 427061, 427070], [400, 200, 5], [1, 2, 1]]
    assert columns(w, "cpu", "memory_gib", "gpu") == [[12, 3, 4], [16, 6, 2], [0.46, 1, 0]]
    assert columns(w, "min_units", "status", "qos") == [[1, 2, 1], [-1, 1, 0], [0, 0, 0]]
    assert w.job_id.tolist() == ["openb-pod-0000", "openb-pod-0001", "openb-pod-0002"]
    assert w.extra["gpu_spec"].tolist() == ["", "V100M16|V100M32", ""]
    assert w.extra["qos_name"].tolist() == ["LS", "BE", "BE"]
    same(w.extra["recorded_wait_s"], [100, 0, 5])
    assert dict(w.notes.skipped) == {"never scheduled": 1}


def test_openb_variant_without_times(put: Put) -> None:
    with pytest.raises(TraceError, match="line 1, field creation_time: this openb variant has no times"):
        read_trace(put(samples.OPENB_WITHOUT_TIMES, "sample"))


def test_eva(put: Put) -> None:
    w = read_trace(put(samples.EVA, "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [[0, 1], [960, 2438], [24860, 15276]]
    assert columns(w, "min_units", "max_units") == [[2, 1], [2, 1]]
    assert columns(w, "cpu", "memory_gib", "gpu") == [[6, 6], [8, 12], [1, 0]]
    assert w.extra["workload_variant"].tolist() == ["resnet18[0]", "diamond[0]"]
    assert w.extra["task_id"].dtype == np.int64
    same(w.extra["init_delay_s"], [80, 160.5])


def test_sacct(put: Put) -> None:
    w = read_trace(put(samples.SACCT, "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [[100, 102], [0, 600], [28800, 240]]
    assert columns(w, "min_units", "max_units", "status") == [[8, 4], [8, 4], [1, 0]]
    assert [job.user for job in w] == ["ada", "bob"]
    same(w.estimate_s, [7200, NAN])
    same(w.gpu, [0.25, 0])
    same(w.memory_gib, [4, 0.125])
    same(w.extra["recorded_wait_s"], [60, 0])
    assert w.extra["Partition"].tolist() == ["gpu", "cpu"]
    assert dict(w.notes.skipped) == {"job step": 1, "not finished": 1, "cancelled before start": 1}
    assert w.notes.header["UnixStartTime"] == "1709285400"


def test_sacct_with_clock_times_and_no_raw_columns(put: Put) -> None:
    text = (
        b"JobID|Submit|Elapsed|Timelimit|ReqCPUS|State|\n"
        b"7_1|2024-03-01T09:30:00|1-00:00:01|02:00|2|COMPLETED|\n"
        b"8|1709285401|00:10.5|Partition_Limit|1|OUT_OF_ME+|\n"
    )
    with pytest.raises(TraceError, match="line 3, field State: expected a state of Slurm"):
        read_trace(put(text, "sample"))
    w = read_trace(put(text.replace(b"OUT_OF_ME+", b"OUT_OF_MEMORY"), "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [["7_1", "8"], [0, 1], [2 * 86401, 10.5]]
    same(w.estimate_s, [120, NAN])
    assert columns(w, "user", "status") == [[-1, -1], [1, 0]]


def test_sacct_whose_local_times_go_back_says_so(put: Put) -> None:
    header = b"JobIDRaw|Submit|Start|End|AllocCPUS|State|ElapsedRaw\n"
    night = (
        b"1|2024-11-03T00:50:00|2024-11-03T00:50:10|2024-11-03T02:10:10|2|COMPLETED|8400\n"  # not from Start to End
        b"2|2024-11-03T01:50:00|2024-11-03T01:10:00|2024-11-03T02:10:00|2|COMPLETED|3600\n"  # no wait below 0
        b"3|2024-11-03T03:00:00|2024-11-03T03:00:00|2024-11-03T05:00:00|2|COMPLETED|3600\n"  # suspended for an hour
    )
    w = read_trace(put(header + night, "night"))
    assert columns(w, "job_id", "work_s") == [[1, 2, 3], [16800, 7200, 7200]]
    same(w.extra["recorded_wait_s"], [NAN, NAN, 0])
    (warning,) = w.notes.warnings
    assert warning.startswith("2 of the jobs")
    assert "SLURM_TIME_FORMAT=%s sacct" in warning

    without_elapsed = b"JobIDRaw|Submit|Start|End|AllocCPUS|State\n" + (
        b"2|2024-11-03T01:40:00|2024-11-03T01:55:00|2024-11-03T01:10:00|2|COMPLETED\n"
    )
    with pytest.raises(
        TraceError, match=r"line 2, field End: expected an end after Start.*SLURM_TIME_FORMAT=%s"
    ):
        read_trace(put(without_elapsed, "night"))


@pytest.mark.parametrize("when", [b"2024-03-01T09:00:00", b"1709283600"])
@pytest.mark.parametrize("format_name", ["auto", "sacct"])
def test_sacct_without_a_header_is_told_so(when: bytes, format_name: str, put: Put) -> None:
    path = put(b"\nCANCELLED by 1000|1|1|1|" + when + b"|" + when + b"|00:10:00\n", "sample")
    with pytest.raises(TraceError, match="line 2: the header is missing: run sacct without --noheader"):
        read_trace(path, format=format_name)


@pytest.mark.parametrize(
    ("head", "row", "ids"),
    [
        ("Cluster|User", ["north|ann", "south|ann", "north|ann"], ["south/7", "north/7"]),
        ("User", ["ann", "bob", "ann"], ["bob/7", "ann/7"]),  # numbers that were counted anew
        (
            "Cluster|User",
            ["north|ann", "south|bob", "south|eve"],
            ["ann/north/7", "bob/south/7", "eve/south/7"],
        ),
    ],
)
def test_sacct_tells_jobs_by_cluster_number_and_user(
    put: Put, head: str, row: list[str], ids: list[str]
) -> None:
    lines = [f"{each}|7|{100 * number}|60|1|COMPLETED" for number, each in enumerate(row)]
    text = "\n".join([f"{head}|JobIDRaw|Submit|ElapsedRaw|AllocCPUS|State", *lines, ""])
    w = read_trace(put(text.encode(), "sample"))
    assert w.job_id.tolist() == ids
    assert dict(w.notes.skipped) == ({"earlier attempt of a job": 1} if len(ids) == 2 else {})


def test_sacct_with_several_attempts_of_a_job_keeps_the_last(put: Put) -> None:
    text = (
        b"JobID|Submit|Elapsed|ReqCPUS|State\n"
        b"7|2024-03-01T09:50:00|00:20:00|2|COMPLETED\n"
        b"7|2024-03-01T09:30:00|00:10:00|2|NODE_FAIL\n"
        b"8|2024-03-01T09:30:00|00:30:00|1|COMPLETED\n"
    )
    w = read_trace(put(text, "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [[8, 7], [0, 1200], [1800, 2400]]
    assert dict(w.notes.skipped) == {"earlier attempt of a job": 1}


def test_sacct_tells_a_number_that_is_used_again_from_a_requeue(put: Put) -> None:
    times = [  # submission and end: a job that is requeued at once, and the number again after a day, twice
        (1_000, 2_000),
        (2_001, 4_000),
        (4_300, 5_000),
        (91_000, 92_000),
        (92_301, 93_000),
    ]
    lines = [f"7|ann|{submit}|{submit}|{end}|1|COMPLETED" for submit, end in reversed(times)]
    text = "\n".join(["JobIDRaw|User|Submit|Start|End|AllocCPUS|State", *lines, ""])
    w = read_trace(put(text.encode(), "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [
        ["7", "7/2", "7/3"],
        [0, 86_700, 88_001],
        [700, 1000, 699],
    ]
    assert dict(w.notes.skipped) == {"earlier attempt of a job": 2}


def test_csv(put: Put) -> None:
    w = read_trace(put(samples.CSV, "sample"))
    assert columns(w, "job_id", "submit_s", "work_s") == [["b", "a"], [0, 5], [4, 21]]
    assert columns(w, "min_units", "max_units") == [[1, 1], [1, 2]]
    assert [(job.curve, job.user) for job in w] == [("linear", -1), ("amdahl:0.05", "ada")]
    same(w.estimate_s, [60, NAN])
    assert w.extra["colour"].tolist() == ["blue", "red"]
    same(w.extra["mark"], [2.5, 1])
    assert columns(w, "grace_s", "priority") == [[0, 30], [-2, 0]]
    same(w.gpu, [NAN, 1])
    assert w.notes.warnings == ("the rows are not in order of submission; sorted",)
    assert w.name == "sample"


@pytest.mark.parametrize("name", samples.TEXTS)
def test_gzip_is_told_by_content(name: str, put: Put) -> None:
    plain = read_trace(put(samples.TEXTS[name], "a"))
    squeezed = read_trace(put(gzip.compress(samples.TEXTS[name]), "b"))
    assert squeezed == plain
    assert squeezed.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize("name", samples.TEXTS)
def test_named_and_detected_formats_agree(name: str, put: Put) -> None:
    path = put(samples.TEXTS[name], "a")
    assert read_trace(path).notes.format == name
    assert read_trace(path, format=name) == read_trace(path)


@pytest.mark.parametrize("name", samples.TEXTS)
def test_windows_line_ends_and_byte_order_mark(name: str, put: Put) -> None:
    text = samples.TEXTS[name]
    assert read_trace(put(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"), "a")) == read_trace(put(text, "b"))


@pytest.mark.parametrize("name", samples.TEXTS)
def test_last_line_without_line_feed(name: str, put: Put) -> None:
    text = samples.TEXTS[name]
    assert read_trace(put(text.rstrip(b"\n"), "a")) == read_trace(put(text, "b"))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_describes_itself(name: str) -> None:
    described = FORMATS[name]
    assert described.name == name
    assert str(described) == described.summary
    assert "\n" not in described.summary
    assert described.details
    # Every required column has a rule.
    targets = " ".join(rule.column for rule in described.rules)
    assert all(column in targets for column in ("job_id", "submit_s", "work_s", "max_units"))
