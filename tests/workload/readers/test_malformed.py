"""Malformed input: one clear line that names file, line and field, or a count by reason."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from betimes.errors import InputError, TraceError
from betimes.workload import FORMATS, read_trace
from tests.workload.readers import samples

Put = Callable[[bytes, str], Path]

# Format, what is replaced, by what, the line and the field that the message must name, and what was expected.
FAULTS = [
    ("swf", b"    1    0   5", b"    1   -3   5", 5, "submit time", "a number of 0 or more"),
    ("swf", b"    1    0   5", b"    1  nan   5", 5, "submit time", "a number of 0 or more"),
    ("swf", b"    1    0   5", b"    1  inf   5", 5, "submit time", "a number of 0 or more"),
    ("swf", b"    1    0   5", b"    1   12", 5, None, "expected 18 fields, found 17"),
    ("swf", b"    1    0   5", b"  1.5    0   5", 5, "job number", "a whole number"),
    ("swf", b"    1    0   5", b"  one    0   5", 5, "job number", "a whole number"),
    ("swf", b"  100   4   98.5", b"  100   4   9_8", 5, "average CPU time", "a number"),
    ("swf", b"  100   4   98.5", b"  100 4.5   98.5", 5, "allocated processors", "a whole number"),
    ("swf", b"    2   10  -1", b"    1   10  -1", 6, "job_id", "an id not used yet"),
    ("philly-pcs", b"16602.0", b"0", 3, "service", "a number above 0"),
    ("philly-pcs", b"16602.0", b"-5", 3, "service", "a number above 0"),
    ("philly-pcs", b"16602.0,4", b"16602.0,0", 3, "num_jobs", "a whole number of 1 or more"),
    ("philly-pcs", b"16602.0,4", b"16602.0,2.5", 3, "num_jobs", "a whole number of 1 or more"),
    ("philly-pcs", b"1,6.0,", b"0,6.0,", 3, "job_id", "an id not used yet"),
    ("philly-pcs", b",VggnetModel256\n#", b",\n#", 3, "model_name", "a printable name"),
    ("philly-jobs", b"2017-09-04 10:30:51", b"yesterday", 3, "timestamp", "a date and time"),
    ("philly-jobs", b"60.0,1,60.0", b"60.0,1", 3, None, "expected 5 fields, found 4"),
    ("openb", b"6000,12288,2", b"0,0,0", 3, "cpu_milli", "some demand"),
    ("openb", b"427061,427161,", b"427061,NaN,", 3, "deletion_time", "a number of 0 or more"),
    ("openb", b"openb-pod-0002", b"openb-pod-0000", 4, "job_id", "an id not used yet"),
    ("eva", b"any,0,6,12", b"any,0,0,0", 3, "cpus", "some demand"),
    ("eva", b",15276,", b",-1,", 3, "duration_s", "a number of 0 or more"),
    ("sacct", b"TIMEOUT", b"ASLEEP", 5, "State", "a state of Slurm"),
    ("sacct", b"cpu=4,mem=512M", b"cpu=4,mem=512Q", 5, "AllocTRES", "resources such as"),
    ("csv", b"b,0,4,1,1", b"b,0,4,1,2", 3, "min_units", "at most max_units"),
    ("csv", b"b,0,4,1", b"b,0,4,0", 3, "max_units", "a whole number of 1 or more"),
    ("csv", b"b,0,4", b"b,nan,4", 3, "submit_s", "a number of 0 or more"),
    ("csv", b"b,0,4", b"b,1e999,4", 3, "submit_s", "a number of 0 or more"),
    ("csv", b"b,0,4", b"b,\xc3\xa9,4", 3, "submit_s", "a number of 0 or more"),
    ("csv", b",1,30,", b",0,30,", 2, "gpu", "some demand"),
    ("csv", b",1,30,", b",1,-30,", 2, "grace_s", "a number of 0 or more"),
    ("csv", b",1,30,", b",1,1e16,", 2, "grace_s", "at most 1e+15"),
    ("csv", b",-2,", b",-2.5,", 3, "priority", "a whole number"),
    ("csv", b"b,0,4", b"b\xff,0,4", 3, None, "expected UTF-8 text"),
    ("csv", b"b,0,4", b'"b"x,0,4', 3, None, "expected a well-formed row"),
    ("csv", b"b,0,4", b"a,0,4", 3, "job_id", "an id not used yet"),
]


@pytest.mark.parametrize(("name", "old", "new", "line", "field", "expected"), FAULTS)
def test_message_names_file_line_and_field(
    name: str, old: bytes, new: bytes, line: int, field: str | None, expected: str, put: Put
) -> None:
    text = samples.TEXTS[name]
    assert text.count(old) >= 1
    path = put(text.replace(old, new, 1), "broken")
    with pytest.raises(TraceError) as caught:
        read_trace(path, format=name)
    message = str(caught.value)
    assert caught.value.line == line
    assert caught.value.field == field
    assert message.startswith(f"{path}, line {line}")
    assert expected in message
    assert "--on-bad-rows skip" in message
    assert "\n" not in message


@pytest.mark.parametrize(("name", "old", "new", "line", "field", "expected"), FAULTS)
def test_skipping_counts_the_row(
    name: str, old: bytes, new: bytes, line: int, field: str | None, expected: str, put: Put
) -> None:
    whole = read_trace(put(samples.TEXTS[name], "whole"), format=name)
    broken = put(samples.TEXTS[name].replace(old, new, 1), "broken")
    w = read_trace(broken, format=name, on_bad_rows="skip")
    assert len(w) == len(whole) - 1
    reasons = [reason for reason in w.notes.skipped if reason not in whole.notes.skipped]
    assert len(reasons) == 1
    assert reasons[0].startswith(f"{field}: " if field else "expected")
    assert w.notes.skipped[reasons[0]] == 1


def test_line_numbers_beyond_the_first_block(put: Put) -> None:
    line = b"%7d 5 0 10 1 -1 -1 1 -1 -1 1 1 -1 -1 -1 -1 -1 -1\n"
    many = b"".join(line % number for number in range(120_000))
    assert len(many) > (4 << 20)
    broken = many + (b"; a comment\n\n" + line % 120_000).replace(b" 10 1 ", b" ten 1 ")
    with pytest.raises(TraceError) as caught:
        read_trace(put(broken, "a.swf"))
    assert (caught.value.line, caught.value.field) == (120_003, "run time")
    twice = many + line % 7
    with pytest.raises(TraceError, match=r"line 120001, field job_id: .*line 8 has it"):
        read_trace(put(twice, "a.swf"))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "content", [b"", b"\n \n", gzip.compress(b"", mtime=0)], ids=["nothing", "blanks", "an empty archive"]
)
def test_empty_file(name: str, content: bytes, put: Put) -> None:
    for wanted in (name, "auto"):
        with pytest.raises(TraceError, match=r"empty|no job|damaged"):
            read_trace(put(content, "a.csv"), format=wanted)


@pytest.mark.parametrize("name", samples.TEXTS)
def test_header_without_jobs(name: str, put: Put) -> None:
    header = b"; MaxProcs: 4\n" if name == "swf" else samples.TEXTS[name].split(b"\n")[0] + b"\n"
    with pytest.raises(TraceError, match="no job in the file"):
        read_trace(put(header, "a"))


def test_no_job_left_says_why(put: Put) -> None:
    with pytest.raises(TraceError, match=r"no job is left to run \(1 cancelled before start\)"):
        read_trace(put(b"3 20 0 0 4 -1 -1 4 100 -1 5 7 2 3 1 1 -1 -1\n", "a.swf"))


@pytest.mark.parametrize("name", samples.TEXTS)
def test_truncated_gzip(name: str, put: Put) -> None:
    whole = gzip.compress(samples.TEXTS[name], mtime=0)
    for cut in range(2, len(whole) - 1, 7):
        with pytest.raises(TraceError, match="gzip stream is truncated"):
            read_trace(put(whole[:cut], "a.gz"), on_bad_rows="skip")


def test_damaged_gzip(put: Put) -> None:
    whole = bytearray(gzip.compress(samples.SWF, mtime=0))
    whole[-6] ^= 0xFF
    with pytest.raises(TraceError, match="gzip stream is damaged"):
        read_trace(put(bytes(whole), "a.gz"))


def test_missing_column_names_it(put: Put) -> None:
    with pytest.raises(
        TraceError, match=r"line 1, field service: the column is missing; the header has app_id"
    ):
        read_trace(put(b"app_id,submit_time\n1,2\n", "a"), format="philly-pcs")
    with pytest.raises(TraceError, match=r"line 1, field max_units: the column is missing"):
        read_trace(put(b"submit_s,work_s\n1,2\n", "a"))


def test_column_twice(put: Put) -> None:
    with pytest.raises(TraceError, match=r"line 1, field work_s: the column appears twice"):
        read_trace(put(b"submit_s,work_s,max_units,work_s\n1,2,3,4\n", "a"))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.swf: cannot be opened: No such file"):
        read_trace(tmp_path / "nowhere.swf")
    with pytest.raises(TraceError, match=r"Is a directory"):
        read_trace(tmp_path)
    with pytest.raises(TraceError, match=r"null byte"):
        read_trace("a\0b")


def test_unknown_format_suggests_the_nearest(put: Put) -> None:
    with pytest.raises(
        InputError, match=r"'swv' is unknown \(did you mean 'swf'\?\); known are parquet, swf"
    ):
        read_trace(put(b"", "a"), format="swv")
    with pytest.raises(InputError, match="expected fail or skip"):
        read_trace(put(b"", "a"), on_bad_rows="ignore")  # pyright: ignore[reportArgumentType]


def test_unrecognised_file_shows_how_it_begins(put: Put) -> None:
    with pytest.raises(TraceError, match=r"begins with 'batch,of,cookies'\): name it with --format"):
        read_trace(put(b"batch,of,cookies\n1,2,3\n", "a.csv"))
    with pytest.raises(TraceError, match=r"expected philly-pcs or philly-jobs"):
        read_trace(put(samples.SWF, "a"), format="philly")


def test_family_and_suffix(put: Put) -> None:
    assert read_trace(put(samples.PHILLY_JOBS, "a"), format="philly").notes.format == "philly-jobs"
    assert read_trace(put(samples.PHILLY_PCS, "a"), format="philly").notes.format == "philly-pcs"
    with pytest.raises(TraceError, match=r"line 1: expected 18 fields, found 2"):
        read_trace(put(b"1 2\n", "a.swf"))


def test_endless_line(put: Put) -> None:
    with pytest.raises(TraceError, match="expected lines of at most 16 MiB"):
        read_trace(put(b"; " + b"x" * (21 << 20), "a.swf"))


def test_pipe(tmp_path: Path) -> None:
    # Read once from front to back: what a shell's process substitution gives.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(gzip.compress(samples.SWF),))
    writer.start()
    assert len(read_trace(pipe)) == 2
    writer.join()


def test_note_of_betimes_that_is_none(put: Put) -> None:
    for note in (
        b"{",
        b"[" * 100_000,
        b"3",
        b'{"machine_units": 0}',
        b'{"extra": {"a": "date"}}',
        b'{"header": [1]}',
    ):
        with pytest.raises(TraceError, match="the note about the workload is not"):
            read_trace(put(b"# betimes-workload " + note + b"\nsubmit_s,work_s,max_units\n1,2,3\n", "a"))
