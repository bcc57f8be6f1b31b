"""Tables of interference: the one that ships, look-ups, and files that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.cluster import Interference, read_interference
from betimes.cluster.interference import interference_tables, workload_of
from betimes.errors import ClusterError


def test_eva_ships() -> None:
    assert interference_tables() == ["eva"]
    table = read_interference("eva")
    assert len(table.workloads) == 9
    assert table.pair("resnet18", "gcn") == 0.835
    assert table.pair("gcn", "resnet18") == 0.915  # the row's throughput, next to the column's workload
    assert table.pair("a3c", "a3c") == 0.671
    assert table.pair("seq", "vit") == 0.95  # not measured
    assert read_interference("eva", unrecorded=0.8).pair("seq", "vit") == 0.8


def test_more_than_two_multiply() -> None:
    table = read_interference("eva")
    assert table.of("sage", []) == 1.0
    assert table.of("sage", ["vit", "gcn[2]", "vit"]) == pytest.approx(0.908 * 0.908 * 0.882)
    assert table.of("sage[7]", ["gcn"]) == 0.882
    assert list(table.combinations()) == []


def test_kinds_name_their_workload() -> None:
    assert [workload_of(kind) for kind in ("a", "a[3]", "a[x]", "a[]", "a[1][2]", "a [3]", "[3]")] == [
        "a",
        "a",
        "a[x]",
        "a[]",
        "a[1]",
        "a",
        "[3]",
    ]


def test_a_workload_that_is_not_there() -> None:
    with pytest.raises(
        ClusterError, match=r"workload 'resnet' is not in the table of interference \(did you mean 'resnet18'"
    ):
        read_interference("eva").pair("resnet", "gcn")
    with pytest.raises(ClusterError, match="workload 'x' is not in the table"):
        read_interference("eva").of("x", [])


@pytest.mark.parametrize(
    ("workloads", "throughput", "message"),
    [
        (("a", "a"), ((1.0, 1.0), (1.0, 1.0)), "workload a stands twice"),
        (("a", "b"), ((1.0, 1.0),), "a row and a column for each of 2 workloads"),
        (("a",), ((1.1,),), "a next to a: expected a throughput from 0 to 1, found 1.1"),
        (("a",), ((-0.1,),), "found -0.1"),
    ],
)
def test_impossible_tables(
    workloads: tuple[str, ...], throughput: tuple[tuple[float, ...], ...], message: str
) -> None:
    with pytest.raises(ClusterError, match=message):
        Interference(workloads, throughput)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty; expected a line with the names"),
        ("w\n", "line 1: expected 1 to 1000 names"),
        (
            "w,a,b\na,1,0.9\nb,1,1.2\n",
            "line 3, field b: expected a throughput from 0 to 1 or nothing, found '1.2'",
        ),
        ("w,a,b\na,1,x\n", "line 2, field b: expected a throughput"),
        ("w,a,b\na,1,nan\n", "line 2, field b: expected a throughput"),
        ("w,a,b\na,1\n", "line 2: expected 2 throughputs, found 1"),
        ("w,a\na,1\na,1\n", "line 3: workload 'a' stands twice"),
        ("w,a\nc,1\n", "line 2: workload 'c' has no column; columns are a"),
        ("w,a,b\na,1,1\n", "workload b has a column but no line"),
        ("w,a,a\na,1,1\n", "workload a stands twice"),
        ('w,a\n"a,1\n', "line 2: not a CSV line"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ClusterError, match=message) as caught:
        read_interference(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="cannot be read"):
        read_interference(tmp_path / "none.csv")
