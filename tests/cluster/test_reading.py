"""Cluster files: what they become, what is refused and how, and whatever bytes they hold."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Cluster, NodeGroup, read_cluster
from betimes.errors import ClusterError
from tests.cluster.anything import NASTY, OFFERS, read_anything

Put = Callable[[bytes | str], Path]

TOML = """# two racks
name = "two racks"
grace_limit_s = 1200

[[nodes]]
type = "a100"
count = 4
gpu = 8
cpu = 128
memory_gib = 1024.5

[[nodes]]
type = "cpu"
cpu = 64
memory_gib = 256
"""

OPENB = """sn,cpu_milli,memory_mib,gpu,model
openb-node-0000,64000,262144,2,P100
openb-node-0001,32000,131072,0,
openb-node-0002,64000,262144,2,P100
openb-node-0003,64000,262144,2,T4
"""


def test_toml(put: Put) -> None:
    wanted = Cluster(
        "two racks", (NodeGroup("a100", 4, 8, 128, 1024.5), NodeGroup("cpu", 1, 0, 64, 256)), 1200
    )
    assert read_cluster(put(TOML)) == wanted
    assert read_cluster(put(gzip.compress(TOML.encode()))) == wanted
    assert read_cluster(put("\ufeff" + TOML)) == wanted


def test_defaults_of_toml(put: Put) -> None:
    cluster = read_cluster(put('[[nodes]]\ntype = "a"\ncpu = 4\nmemory_gib = 0.5\n'))
    assert cluster == Cluster("racks", (NodeGroup("a", 1, 0, 4, 0.5),), 3600.0)
    assert cluster.groups[0].usd_per_h is None


def test_price_in_toml(put: Put) -> None:
    cluster = read_cluster(put(TOML.replace("1024.5", "1024.5\nusd_per_h = 3")))
    assert [group.usd_per_h for group in cluster.groups] == [3.0, None]


def test_openb(put: Put) -> None:
    wanted = Cluster(
        "racks",
        (NodeGroup("P100", 2, 2, 64, 256), NodeGroup("cpu", 1, 0, 32, 128), NodeGroup("T4", 1, 2, 64, 256)),
    )
    assert read_cluster(put(OPENB)) == wanted
    assert read_cluster(put(gzip.compress(OPENB.replace("\n", "\r\n").encode()))) == wanted
    moved = "model,sn,rack, cpu_milli,memory_mib,gpu\nT4,a,7, 1500,1023,1\n"
    assert read_cluster(put(moved)).capacity.tolist() == [[1000, 1500, 1023]]


def test_public_node_lists(node_lists: Path) -> None:
    everything = read_cluster(node_lists / "openb_node_list_all_node.csv.gz")
    with_gpus = read_cluster(node_lists / "openb_node_list_gpu_node.csv.gz")
    assert (len(everything), len(with_gpus)) == (1523, 1213)
    assert everything.name == "openb_node_list_all_node"
    assert everything.total[0] == with_gpus.total[0] == 6_212_000
    assert max(everything.groups, key=lambda group: group.count) == NodeGroup("G2", 549, 8, 96, 384)
    assert (with_gpus.capacity[:, 0] > 0).all()


NODES = '[[nodes]]\ntype = "a"\ncpu = 4\nmemory_gib = 8\n'
BAD = [
    (b"", r"racks\.toml, field nodes: expected at least one table \[\[nodes\]\] with type, count"),
    (b"nodes = []", "field nodes: expected at least one table"),
    (b"nodes = 3", "field nodes: expected at least one table"),
    (b"nodes = [3]", r"\[\[nodes\]\] table 1: expected a table with type"),
    (b"[nodes]\ncpu = 3", "field nodes: expected at least one table"),
    (b"name = \"a\"\nname = \"b\"", "neither an openb node list nor TOML .Cannot overwrite a value"),
    (b"just words", "neither an openb node list nor TOML .*line 1"),
    (b"a = " + b"[" * 5000, "neither an openb node list nor TOML"),
    (b"count = " + b"9" * 5000, "neither an openb node list nor TOML"),
    (b"count = 1\xff", "line 1: not UTF-8 text"),
    (NODES + "gpus = 3", r"\[\[nodes\]\] table 1, field 'gpus': unknown \(did you mean 'gpu'\?\); known are type"),
    ("title = 1\n" + NODES, "racks.toml, field 'title': unknown; .*known are name, grace_limit_s, nodes"),
    (NODES + NODES.replace("cpu = 4\n", ""), r"\[\[nodes\]\] table 2, field cpu: missing"),
    (NODES.replace("4", '"4"'), r"\[\[nodes\]\] table 1, field cpu: expected a number from 0 .* found '4'"),
    (NODES.replace("4", "true"), r"\[\[nodes\]\] table 1, field cpu: .* found True"),
    (NODES.replace("4", "0"), r"\[\[nodes\]\] table 1, field cpu: expected a number above 0, found 0"),
    (NODES.replace("8", "0.0"), "field memory_gib: expected a number above 0"),
    (NODES.replace("4", "-1"), "field cpu: .* found -1"),
    (NODES.replace("4", "nan"), "field cpu: .* found nan"),
    (NODES.replace("4", "1e999"), "field cpu: .* found inf"),
    (NODES.replace("4", "9" * 40), "field cpu: .* found a number of 19 digits or more"),
    (NODES.replace("4", "2000000000"), "field cpu: expected a number from 0 to 1000000000, found 2000000000"),
    (NODES.replace("4", "1979-05-27"), r"field cpu: .* found datetime\.date"),
    (NODES + "usd_per_h = -1", r"\[\[nodes\]\] table 1, field usd_per_h: expected a number from 0 .* found -1"),
    (NODES + "usd_per_h = nan", "field usd_per_h: .* found nan"),
    (NODES + "usd_per_h = '3'", "field usd_per_h: .* found '3'"),
    (NODES + "count = 0", "field count: expected a whole number of nodes from 1 to 1000000, found 0"),
    (NODES + "count = 1.5", "field count: .* found 1.5"),
    (NODES + "count = 2000000", "field count"),
    (NODES.replace('"a"', "7"), "field type: expected a printable name .* found 7"),
    ("name = 7\n" + NODES, "racks.toml, field name: expected a printable name"),
    ("grace_limit_s = -5\n" + NODES, "racks.toml, field grace_limit_s: expected a number from 0 .* found -5"),
    (2 * (NODES + "count = 600000\n"), "at most 1000000 nodes, found 1200000"),
    (NODES + "reserved_discount_frac = 1.5", "field reserved_discount_frac: expected a number from 0 to 1, found 1.5"),
    (OPENB.replace(",model", ",kind"), "line 1, field model: the column is missing; expected sn, cpu_milli"),
    (OPENB.splitlines()[0], "there is a header but no node below it"),
    (OPENB + "a,1,2,3", "line 6: expected 5 fields, found 4"),
    (OPENB + "\na,0,2,3,x", "line 7, field cpu_milli: expected a whole number of 1 or more, found '0'"),
    (OPENB + "a,1,-2,3,x", "line 6, field memory_mib: .* found '-2'"),
    (OPENB + "a,1,2,1.5,x", "line 6, field gpu: expected a whole number of 0 or more, found '1.5'"),
    (OPENB + "a,1,2," + "9" * 5000 + ",x", "line 6, field gpu"),
    (OPENB + "a,1,2,2000000000,x", "line 6, field gpu: expected a number from 0 to 1000000000"),
    (OPENB + "a,1,2,\u0663,x", "line 6, field gpu"),
    (OPENB + ",1,2,3,x", "line 6, field sn: expected the node's name"),
    (OPENB + "openb-node-0001,1,2,3,x", r"line 6, field sn: expected a name not used yet \(line 3 has it\)"),
    (OPENB + "a,1,2,3,x\0", "line 6, field type: expected a printable name"),
    (OPENB + 'a,1,2,3,"x', "line 6: not a CSV line"),
    (gzip.compress(OPENB.encode())[:-9], "the gzip data is truncated or damaged"),
    (b"\x1f\x8babc" + bytes(20), "cannot be read .Unknown compression method"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD)
def test_malformed_files(content: bytes | str, message: str, put: Put) -> None:
    with pytest.raises(ClusterError, match=message) as caught:
        read_cluster(put(content))
    said = str(caught.value)
    assert "\n" not in said
    assert "racks.toml" in said
    assert len(said) < 500


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"absent\.toml: cannot be read \(No such file"):
        read_cluster(tmp_path / "absent.toml")
    with pytest.raises(ClusterError, match="cannot be read"):
        read_cluster(tmp_path)
    with pytest.raises(ClusterError, match="cannot be read"):
        read_cluster("a\0b")


def test_an_archive_cannot_fill_the_memory(put: Put) -> None:
    with pytest.raises(ClusterError, match="larger than 64 MiB"):
        read_cluster(put(gzip.compress(b" " * (65 << 20), compresslevel=1)))


@given(content=st.binary(max_size=200))
def test_arbitrary_bytes(content: bytes) -> None:
    read_anything(content)
    read_anything(OPENB.encode() + content)
    read_anything(TOML.encode() + content)


@given(data=st.data(), text=st.sampled_from([TOML, OPENB, OFFERS]))
def test_mutated_files(data: st.DataObject, text: str) -> None:
    content = text.encode()
    separator = b"," if text is OPENB else b" "
    lines = content.split(b"\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["cell", "cell", "repeat", "drop", "bytes"])):
            case "cell":
                cells = lines[at].split(separator)
                cells[data.draw(st.integers(0, len(cells) - 1))] = data.draw(st.sampled_from(NASTY))
                lines[at] = separator.join(cells)
            case "repeat":
                lines.insert(at, lines[at])
            case "drop" if len(lines) > 1:
                del lines[at]
            case _:
                place = data.draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:place] + data.draw(st.binary(max_size=4)) + lines[at][place:]
    read_anything(b"\n".join(lines))


@given(place=st.floats(0, 1, exclude_max=True), mask=st.integers(0, 255), cut=st.floats(0, 1))
def test_damaged_gzip(place: float, mask: int, cut: float) -> None:
    squeezed = bytearray(gzip.compress(OPENB.encode(), mtime=0))
    squeezed[int(place * len(squeezed))] ^= mask
    read_anything(bytes(squeezed[: int(cut * len(squeezed)) or 1]))
