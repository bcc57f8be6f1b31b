"""Offers in cluster files: what they become, what is refused and how, and whatever tables there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Offer, Spot, read_cluster
from betimes.cluster.revocation import Bathtub, Exponential, Never
from betimes.errors import ClusterError
from tests.cluster.anything import NASTY, OFFERS, read_anything

Put = Callable[[bytes | str], Path]

NODES = '[[nodes]]\ntype = "a"\ncpu = 4\nmemory_gib = 8\n'
OFFER = '[[offers]]\ntype = "o"\ncpu = 4\nmemory_gib = 8\nusd_per_h = 1\n'


def test_offers_in_toml(put: Put) -> None:
    cluster = read_cluster(put(OFFERS))
    assert (len(cluster), cluster.quota, cluster.seed, bool(cluster)) == (0, 256, 9, True)
    assert cluster.capacity.shape == (0, 3)
    assert cluster.total.tolist() == [0, 0, 0]
    assert cluster.offers[:8] == read_cluster("m5").offers
    assert cluster.offers[8:] == (
        Offer(
            type="vm",
            family="vm",
            cpu=8.0,
            memory_gib=32.0,
            usd_per_h=1.0,
            boot_s=120.0,
            min_bill_s=3600.0,
            bill_step_s=3600.0,
            bill_from="request",
            capacity=256,
        ),
        Offer(
            type="p3.2xlarge",
            family="p3",
            gpu=1.0,
            cpu=4.0,
            memory_gib=61.0,
            usd_per_h=3.06,
            boot_s=22.0,
            boot_sigma=0.5,
            boot_failure_frac=0.01,
            setup_s=151.0,
            release_s=1.0,
            notice_s=30.0,
            spot=Spot(0.25, Exponential(4.0)),
        ),
    )
    assert all(type(offer.cpu) is float and type(offer.boot_s) is float for offer in cluster.offers)


def test_nodes_and_offers_in_toml(put: Put) -> None:
    nodes = f"{NODES}count = 4\nusd_per_h = 10\nreserved_discount_frac = 0.5\n{NODES}"
    cluster = read_cluster(put(nodes + OFFER))
    assert (len(cluster), [offer.type for offer in cluster.offers]) == (5, ["o"])
    assert cluster.groups[0].charged_usd_per_h == 5.0
    assert cluster.groups[1].charged_usd_per_h is None
    assert cluster.owned_usd(7200.0) == 40


@pytest.mark.parametrize(
    ("spot", "wanted"),
    [
        ("false", None),
        ("true", Spot(0.3, Bathtub(0.45, 1.0, 0.8, 24.0, 24.0))),
        ("{}", Spot()),
        ("{ price_factor = 1 }", Spot(1.0)),
        ('{ revocation = "never", price_factor = 0.5 }', Spot(0.5, Never())),
        ("{ a = 0.5, limit_h = 12 }", Spot(0.3, Bathtub(a=0.5, limit_h=12.0))),
    ],
)
def test_spot_in_toml(spot: str, wanted: Spot | None, put: Put) -> None:
    assert read_cluster(put(f"{OFFER}spot = {spot}")).offers[0].spot == wanted


def test_prices_that_change(put: Put) -> None:
    changes = "price_changes = [{ at_s = 3600, usd_per_h = 2 }, { at_s = 7200.0, usd_per_h = 0.5 }]"
    offer = read_cluster(put(f"{OFFER}{changes}\nspot = {{ price_factor = 0.5 }}")).offers[0]
    assert offer.price_changes == ((3600, 2), (7200.0, 0.5))
    assert [offer.prices.at(at_s) for at_s in (0.0, 3600.0, 7200.0)] == [0.5, 1.0, 0.25]


def test_speeds_of_workloads(put: Put) -> None:
    offer = read_cluster(put(f'{OFFER}speeds = {{ resnet18 = 2, "gpt2 large" = 0.5 }}')).offers[0]
    assert offer.speeds == (("resnet18", 2.0), ("gpt2 large", 0.5))


BAD = [
    (OFFER + "speeds = 2", r"table 1, field speeds: expected a table of workloads and speeds, found 2"),
    (OFFER + "speeds = { a = 0 }", r"table 1, field speeds.a: expected a speed above 0, found 0"),
    (OFFER + "speeds = { a = -1 }", r"table 1, field speeds.a: expected a number from 0 to 1000, found -1"),
    (OFFER + "speeds = { a = true }", r"table 1, field speeds.a: expected a number from 0 to 1000, found True"),
    (OFFER + "speeds = { a = nan }", r"table 1, field speeds.a: expected a number from 0 to 1000, found nan"),
    ('interference = "eva"\n' + OFFER + "speeds = { resnet = 2 }", "workload 'resnet' is not in the table of interf"),
    (OFFER + "price_changes = 3", r"field price_changes: expected a list of \{ at_s, usd_per_h \}, found 3"),
    (OFFER + "price_changes = [{ at_s = 1 }]", "field price_changes: expected a list of .*; number 1 is"),
    (
        OFFER + "price_changes = [{ at_s = 1, usd_per_h = -2 }]",
        "field price_changes.usd_per_h: expected .* found -2",
    ),
    (
        OFFER + "price_changes = [{ at_s = 9, usd_per_h = 1 }, { at_s = 1, usd_per_h = 2 }]",
        "field price_changes: a price from 1 comes after one from 9",
    ),
    ("offers = 3", r"field offers: expected at least one table \[\[offers\]\] with type, cpu"),
    ("offers = []", r"field nodes: expected at least one table \[\[nodes\]\] .*, or one \[\[offers\]\] with"),
    ("offers = [3]", r"\[\[offers\]\] table 1: expected a table with type, family"),
    (OFFER.replace("usd_per_h = 1", ""), r"\[\[offers\]\] table 1, field usd_per_h: missing; every offer needs it"),
    (OFFER.replace("cpu = 4", ""), r"\[\[offers\]\] table 1, field cpu: missing"),
    (OFFER.replace("cpu = 4", "cpu = 0"), "field cpu: expected a number above 0, found 0"),
    (OFFER.replace("4", "0.0004"), "field cpu: expected at least a thousandth, found 0.0004"),
    (OFFER + OFFER.replace("= 1", "= -1"), r"\[\[offers\]\] table 2, field usd_per_h: .* found -1"),
    (OFFER + OFFER, r"\[\[offers\]\] table 2, field type: o is a type of \[\[offers\]\] table 1 already"),
    (OFFER + NODES.replace('"a"', '"o"'), r"\[\[offers\]\] table 1, field type: o is a type of \[\[nodes"),
    (OFFER.replace('"o"', '"m5.large"') + "[x]", "field 'x': unknown; .*known are name, grace_limit_s, nodes, offers"),
    ('catalogue = "m5"\n' + OFFER.replace('"o"', '"m5.large"'), "field type: m5.large is a type of"),
    ('catalogue = "m6"', r"field catalogue: there is no catalogue 'm6'; catalogues are ec2-2023"),
    ("catalogue = 3", "field catalogue: there is no catalogue 3; catalogues are ec2-2023"),
    ("quota = -1\n" + OFFER, "racks.toml, field quota: expected a whole number of machines from 0 .* found -1"),
    ("seed = 1.5\n" + OFFER, "racks.toml, field seed: expected a whole number .* found 1.5"),
    (OFFER + "boot_s = -1", r"table 1, field boot_s: expected a number from 0 to 1000000000, found -1"),
    (OFFER + "setup_s = nan", "field setup_s: .* found nan"),
    (OFFER + "release_s = '1'", "field release_s: .* found '1'"),
    (OFFER + "notice_s = inf", "field notice_s: .* found inf"),
    (OFFER + "boot_sigma = 11", "field boot_sigma: expected a number from 0 to 10, found 11"),
    (OFFER + "boot_failure_frac = 2", "field boot_failure_frac: expected a number from 0 to 1, found 2"),
    (OFFER + "min_bill_s = -60", "field min_bill_s: .* found -60"),
    (OFFER + "bill_step_s = true", "field bill_step_s: .* found True"),
    (OFFER + "bill_from = 'now'", "field bill_from: expected request or boot, found 'now'"),
    (OFFER + "capacity = 0", "field capacity: expected a whole number of machines from 1 to 1000000, found 0"),
    (OFFER + "capacity = 1.5", "field capacity: .* found 1.5"),
    (OFFER + "family = ''", "field family: expected a printable name, found ''"),
    (OFFER + "family = 3", "field family: .* found 3"),
    (OFFER + "usd_per_hour = 3", r"table 1, field 'usd_per_hour': unknown \(did you mean 'usd_per_h'\?\)"),
    (OFFER + "spot = 3", "field spot: expected true, false or a table with price_factor, revocation, found 3"),
    (OFFER + "spot = { revocation = 'x' }", "field spot.revocation: expected never, exponential, bathtub, found 'x'"),
    (OFFER + "spot = { revocation = [] }", "field spot.revocation: expected never"),
    (OFFER + "spot = { price_factor = 2 }", "field spot.price_factor: expected a number from 0 to 1, found 2"),
    (OFFER + "spot = { mean_h = 2 }", "field spot.'mean_h': unknown; .*known are price_factor, revocation, a, tau1_h"),
    (OFFER + "spot = { revocation = 'exponential' }", "field spot.mean_h: missing"),
    (OFFER + "spot = { revocation = 'exponential', mean_h = 0 }", "field spot.mean_h: expected a number above 0"),
    (OFFER + "spot = { tau1_h = -1 }", "field spot.tau1_h: expected a number above 0"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BAD)
def test_malformed_offers(content: str, message: str, put: Put) -> None:
    with pytest.raises(ClusterError, match=message) as caught:
        read_cluster(put(content))
    said = str(caught.value)
    assert "\n" not in said
    assert "racks.toml" in said
    assert len(said) < 600


OFFERED = (
    "type",
    "family",
    "gpu",
    "cpu",
    "memory_gib",
    "usd_per_h",
    "boot_s",
    "boot_sigma",
    "boot_failure_frac",
)
CHARGED = (
    "setup_s",
    "release_s",
    "min_bill_s",
    "bill_step_s",
    "bill_from",
    "capacity",
    "spot",
    "notice_s",
    "x",
)
PLAIN = ["0", "1", "0.5", "60", "3600.0", '"a"', '"boot"', '"request"', "true", "false", "-1", "nan", "[]"]
DISTRIBUTED = ("price_factor", "revocation", "mean_h", "a", "tau1_h", "tau2_h", "b_h", "limit_h")
VALUES = st.one_of(
    st.sampled_from(PLAIN),
    st.sampled_from(NASTY).map(lambda content: content.decode("latin-1")),
    st.floats().map(str),
    st.dictionaries(
        st.sampled_from(DISTRIBUTED), st.sampled_from([*PLAIN, '"never"', '"bathtub"', '"exponential"'])
    ).map(lambda table: "{ " + ", ".join(f"{key} = {value}" for key, value in table.items()) + " }"),
)


@given(
    tables=st.lists(st.dictionaries(st.sampled_from(OFFERED + CHARGED), VALUES, max_size=4), max_size=3),
    top=st.dictionaries(st.sampled_from(["quota", "seed", "catalogue", "name"]), VALUES, max_size=2),
)
def test_arbitrary_tables(tables: list[dict[str, str]], top: dict[str, str]) -> None:
    lines = [f"{key} = {value}" for key, value in top.items()]
    for number, table in enumerate(tables):
        whole = {"type": f'"t{number}"', "cpu": "4", "memory_gib": "8", "usd_per_h": "1"} | table
        lines += ["[[offers]]", *(f"{key} = {value}" for key, value in whole.items())]
    read_anything("\n".join(lines).encode())
