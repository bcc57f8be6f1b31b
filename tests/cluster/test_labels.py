"""Labels of machines, which machines suit a job, and how both are told in files and messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Cluster, NodeGroup, Offer, read_cluster
from betimes.cluster.labels import (
    MOST_LABELS,
    MOST_REQUIRED,
    Labels,
    as_texts,
    bits_for,
    is_label,
    labels_of,
    mask,
    parse_labels,
    suits,
    why_none_suits,
)
from betimes.cluster.shapes import Shape, distinct_shapes, suiting
from betimes.errors import ClusterError

some_labels = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("12"), max_size=4).map(labels_of)


def test_labels_are_a_mapping_or_texts() -> None:
    labels = labels_of({"zone": "a", "ray.io/kind": "A100-80G", "empty": ""})
    assert labels == (("empty", ""), ("ray.io/kind", "A100-80G"), ("zone", "a"))
    assert parse_labels(as_texts(labels)) == labels
    assert parse_labels(["zone=a", "zone=a"]) == (("zone", "a"),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"": "a"}, "found the key ''; give it at most 256 letters, digits"),
        ({"a b": "c"}, "found the key 'a b'"),
        ({"a": "b,c"}, "found the value 'b,c'"),
        ({"a": "x" * 257}, "found the value 'xxx"),
        ({"a": 1}, "found the value 1"),
        ({"a": True}, "found the value True"),
        ({"a": "b\n"}, r"found the value 'b\\n'"),
        ({f"k{n}": "v" for n in range(MOST_LABELS + 1)}, "expected at most 100 labels, found 101"),
    ],
)
def test_what_is_no_label(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        labels_of(given)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["zone"], "expected a label such as zone=a, found 'zone'"),
        (["zone=a", "zone=b"], "expected one value of zone, found a and b; leave one out"),
        (["=a"], "found the key ''"),
        (["a=b=c"], "found the value 'b=c'"),
    ],
)
def test_what_is_no_text_of_a_label(texts: list[str], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        parse_labels(texts)


@given(st.lists(st.text(max_size=8) | st.from_regex(r"\A[ab]=[12]?\Z"), max_size=4))
def test_any_text_is_labels_or_refused_on_one_line(texts: list[str]) -> None:
    pairs = [text.partition("=") for text in texts]
    if all(sign and is_label(key, value) for key, sign, value in pairs) and len(
        {key for key, _, _ in pairs}
    ) == len(set(texts)):
        assert set(as_texts(parse_labels(texts))) == set(texts)
    else:
        with pytest.raises(ClusterError, match=r"\Aexpected .*\Z"):
            parse_labels(texts)


@given(st.lists(some_labels, max_size=5), some_labels)
def test_bits_say_what_the_rule_says(machines: list[Labels], required: Labels) -> None:
    bits = bits_for([required])
    for labels in machines:
        assert suits(labels, required) == (mask(required, bits) & ~mask(labels, bits) == 0)
    assert (why_none_suits(required, machines) is None) == any(suits(each, required) for each in machines)


def test_there_are_so_many_bits_and_no_more() -> None:
    most = [labels_of({f"k{number}": "v"}) for number in range(MOST_REQUIRED)]
    assert len({*bits_for(most).values()}) == MOST_REQUIRED
    assert mask(labels_of({f"k{MOST_REQUIRED - 1}": "v"}), bits_for(most)) < 2**62
    with pytest.raises(ClusterError, match="jobs require 63 different labels; expected at most 62 at a time"):
        bits_for([*most, labels_of({"one": "more"})])


def test_a_message_says_what_there_is_instead() -> None:
    a, b = labels_of({"zone": "a", "kind": "fast"}), labels_of({"zone": "b"})
    assert why_none_suits(labels_of({"zone": "c"}), [a, b]) == "no node has zone=c; nodes have zone=a, zone=b"
    assert why_none_suits(labels_of({"rack": "1"}), [a, b]) == "no node has rack=1; none has a label rack"
    both = labels_of({"zone": "b", "kind": "fast"})
    assert why_none_suits(both, [a, b]) == "no node has kind=fast and zone=b at once"
    assert why_none_suits(b, [a], "offer", "offers") == "no offer has zone=b; offers have zone=a"
    many = [labels_of({"zone": f"z{number:02}"}) for number in range(20)]
    assert str(why_none_suits(labels_of({"zone": "c"}), many)).endswith("zone=z11, ...")


def test_shapes_are_those_of_nodes_that_suit() -> None:
    a, b = labels_of({"zone": "a"}), labels_of({"zone": "b"})
    small, smaller, large, other = (
        Shape((1, 2, 3), a, "x"),
        Shape((1, 1, 1), a, "x"),
        Shape((9, 9, 9), b, "x"),
        Shape((1, 1, 1), a, "y"),
    )
    shapes = distinct_shapes([small, smaller, large, small, other])
    assert shapes == (small, large, other)
    assert suiting(shapes, a) == (((1, 2, 3), "x"), ((1, 1, 1), "y"))
    assert suiting(shapes, ()) == (((9, 9, 9), "x"), ((1, 1, 1), "y"))
    assert suiting(shapes, labels_of({"zone": "c"})) == ()


FILE = """
[[nodes]]
type = "a100"
count = 2
cpu = 8
memory_gib = 64
labels = { zone = "a", gpu_kind = "a100" }

[[nodes]]
type = "plain"
cpu = 8
memory_gib = 64

[[offers]]
type = "m4"
cpu = 4
memory_gib = 16
usd_per_h = 0.2
labels = { zone = "b" }
"""


def test_a_cluster_file_gives_labels_to_nodes_and_offers(tmp_path: Path) -> None:
    path = tmp_path / "racks.toml"
    path.write_text(FILE)
    cluster = read_cluster(path)
    has = (("gpu_kind", "a100"), ("zone", "a"))
    assert [group.labels for group in cluster.groups] == [has, ()]
    assert cluster.labels(rents=True) == (has, (), (("zone", "b"),))
    assert cluster.labels(rents=False) == (has, ())


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (
            '{ zone = "a", gpu_kind = "a100" }',
            '["zone=a"]',
            r"\[\[nodes\]\] table 1, field labels: expected a ta",
        ),
        ('{ zone = "b" }', "{ zone = 3 }", r"\[\[offers\]\] table 1, field labels: .* found the value 3"),
        (
            '{ zone = "b" }',
            '{ "a b" = "c" }',
            r"\[\[offers\]\] table 1, field labels: .* found the key 'a b'",
        ),
    ],
)
def test_bad_labels_of_a_file_are_named(tmp_path: Path, was: str, now: str, said: str) -> None:
    path = tmp_path / "racks.toml"
    path.write_text(FILE.replace(was, now))
    with pytest.raises(ClusterError, match=said):
        read_cluster(path)


def test_bad_labels_of_a_group_are_named() -> None:
    with pytest.raises(ClusterError, match=r"field labels: expected pairs .* sorted, found"):
        NodeGroup("n", 1, 0, 1, 1, labels=(("b", "1"), ("a", "1")))
    with pytest.raises(ClusterError, match="field labels: expected labels such as zone=a, found the key ''"):
        replace(Offer(type="m", cpu=1, memory_gib=1, usd_per_h=1.0), labels=(("", "1"),))
    with pytest.raises(ClusterError, match="field labels: expected pairs"):
        Cluster("c", (NodeGroup("n", 1, 0, 1, 1, labels="zone"),))  # pyright: ignore[reportArgumentType]
