"""Whatever bytes a file holds, reading it gives a valid workload or an InputError, and nothing else."""

from __future__ import annotations

import functools
import gzip
import io
import tempfile
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.errors import InputError
from betimes.workload import FORMATS, Workload, read_trace
from betimes.workload.readers.rows import Number, Rows, Tally, Whole
from betimes.workload.readers.swf import FIELDS, _careful, _fast
from tests.workload.readers import samples

OnBadRows = Literal["fail", "skip"]
POLICIES: tuple[OnBadRows, ...] = ("fail", "skip")
# What tends to upset parsers of numbers, text and tables.
NASTY = [
    *b"| |-1|-0|0|1.5|1e308|1e999|nan|NaN|inf|-inf|1_000|0x10|+7|9223372036854775808".split(b"|"),
    *b"-9223372036854775809|\xd9\xa1|\xff\xfe|\0|'|#|;|\r|\n|\t|,|a,b|1,2|\x1c5|\x0b5".split(b"|"),
    *b"2017-13-45|0001-01-01T00:00:00|9999-12-31T23:59:59+14:00|99999999-99:99:99".split(b"|"),
    *b"cpu=|mem=1e9G|=|None|Unknown|UNLIMITED|\xe2\x80\xa8|\xc2\x85|\xc3\xa9|\xed\xa0\x80".split(b"|"),
    *(b"|", b'"', b'""', b"9" * 5000, b"x" * 300),
]


@functools.cache
def parquet_sample() -> bytes:
    """Made when asked for: pyarrow, which brings pandas, costs each process that collects tests a second."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        w = Workload.from_columns(
            submit_s=[0, 1, 1],
            work_s=[3, 4, 5],
            user=["a", "b", "a"],
            extra={"k": [1, 2, 3], "t": ["x", "", "z"]},
        )
        w.to_parquet(path)
        return path.read_bytes()


def read_all(content: bytes, name: str) -> None:
    """Read under both policies; skipping must not know fewer jobs than failing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz"
        path.write_bytes(content)
        sizes = [size_read(path, name, policy) for policy in POLICIES]
    if sizes[0] is not None:
        assert sizes[1] == sizes[0]


def size_read(path: Path, name: str, policy: OnBadRows) -> int | None:
    """The number of jobs, None where reading raised; the raised message is one line."""
    try:
        workload = read_trace(path, format=name, on_bad_rows=policy)
    except InputError as error:
        message = str(error)
    else:
        workload.validate()
        assert len(workload.fingerprint()) == 64
        return len(workload)
    assert "\n" not in message
    return None


@st.composite
def mutated(draw: st.DrawFn, text: bytes, separators: bytes) -> bytes:
    """A valid file with cells replaced, lines repeated, dropped and swapped, and bytes put in."""
    lines = text.split(b"\n")
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["cell", "cell", "cell", "repeat", "drop", "swap", "bytes"])):
            case "cell":
                separator = separators[:1]
                cells = lines[at].split(separator)
                cells[draw(st.integers(0, len(cells) - 1))] = draw(st.sampled_from(NASTY))
                lines[at] = separator.join(cells)
            case "repeat":
                lines.insert(at, lines[at])
            case "drop":
                del lines[at]
                if not lines:
                    break
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                place = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:place] + draw(st.binary(max_size=4)) + lines[at][place:]
    return b"\n".join(lines)


SEPARATORS = {"swf": b" ", "sacct": b"|"}


@pytest.mark.parametrize("name", [*FORMATS, "auto"])
@given(content=st.binary(max_size=200))
def test_arbitrary_bytes(name: str, content: bytes) -> None:
    read_all(content, name)


@pytest.mark.parametrize("name", samples.TEXTS)
@given(data=st.data())
def test_mutated_files(name: str, data: st.DataObject) -> None:
    content = data.draw(mutated(samples.TEXTS[name], SEPARATORS.get(name, b",")))
    read_all(content, data.draw(st.sampled_from([name, "auto"])))


@pytest.mark.parametrize("name", samples.TEXTS)
@given(body=st.lists(st.lists(st.sampled_from([*NASTY, b"1", b"2", b"30"]), max_size=19), max_size=4))
def test_header_with_rows_of_nasty_cells(name: str, body: list[list[bytes]]) -> None:
    separator = SEPARATORS.get(name, b",")
    header = samples.TEXTS[name].split(b"\n")[0]
    read_all(b"\n".join([header, *(separator.join(row) for row in body)]), name)


@given(data=st.data())
def test_damaged_parquet(data: st.DataObject) -> None:
    damaged = bytearray(parquet_sample())
    cut = data.draw(st.integers(0, len(damaged)))
    places = st.integers(0, len(damaged) - 1)
    flips = data.draw(st.lists(st.tuples(places, st.integers(1, 255)), max_size=3))
    for place, mask in flips:
        damaged[place] ^= mask
    # With no flip the cut is what damages it.
    read_all(bytes(damaged if flips else damaged[:cut]), "parquet")


@given(
    name=st.sampled_from(sorted(samples.TEXTS)),
    place=st.floats(0, 1, exclude_max=True),
    mask=st.integers(0, 255),
    cut=st.floats(0, 1),
)
def test_damaged_gzip(name: str, place: float, mask: int, cut: float) -> None:
    squeezed = bytearray(gzip.compress(samples.TEXTS[name], mtime=0))
    squeezed[int(place * len(squeezed))] ^= mask
    read_all(bytes(squeezed[: int(cut * len(squeezed)) or 1]), name)


NUMBERS = st.sampled_from([b"0", b"1", b"-1", b"17", b"2.5", b"1e3", b"123456789012", b".5", b"5.", b"-0"])
BLANKS = st.text(" \t", min_size=1, max_size=3).map(str.encode)


@given(rows=st.lists(st.lists(NUMBERS, min_size=18, max_size=18), max_size=5), data=st.data())
def test_fast_way_agrees_with_careful_way(rows: list[list[bytes]], data: st.DataObject) -> None:
    """On well-formed lines with any blanks the fast parser of SWF sees what the careful one sees."""
    text = io.BytesIO()
    for row in rows:
        text.write(data.draw(st.sampled_from([b"", b" ", b"\t  "])))
        text.write(data.draw(BLANKS).join(row))
        text.write(data.draw(st.sampled_from([b"\n", b" \n", b"\r\n", b"\n\n", b"  \n \n"])))
    body = text.getvalue()
    fast = _fast(body)
    assert fast is not None
    tally = Tally(Path("a"), "fail")
    careful = _careful(body, 0, tally)
    assert len(careful) == len(rows)
    quick = Rows(careful.lines, fast, Tally(Path("a"), "skip"))
    careful.tally.on_bad_rows = "skip"
    for name in FIELDS:
        assert Number()(quick, name).tolist() == Number()(careful, name).tolist()
        assert Whole()(quick, name).tolist() == Whole()(careful, name).tolist()
