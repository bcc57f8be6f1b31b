"""Clusters as columns, and what no cluster can be."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.cluster import Cluster, NodeGroup
from betimes.cluster.resources import MOST, multiples_within, whole_capacity, whole_demand
from betimes.errors import ClusterError


def mixed() -> Cluster:
    return Cluster("mixed", (NodeGroup("a100", 2, 8, 128, 1024), NodeGroup("cpu", 1, 0, 256.5, 0.3)))


def test_columns() -> None:
    cluster = mixed()
    assert len(cluster) == 3
    assert cluster.types.tolist() == [0, 0, 1]
    assert cluster.capacity.tolist() == [[8000, 128_000, 1 << 20]] * 2 + [[0, 256_500, 307]]
    assert cluster.largest.tolist() == [8000, 256_500, 1 << 20]
    assert cluster.total.tolist() == [16_000, 512_500, (1 << 21) + 307]
    for column in (cluster.types, cluster.capacity, cluster.largest, cluster.total, cluster.group_capacity):
        assert column.dtype == np.int64
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_equal_clusters() -> None:
    assert mixed() == mixed()
    assert hash(mixed()) == hash(mixed())
    assert pickle.loads(pickle.dumps(mixed())) == mixed()
    assert mixed() != Cluster("mixed", mixed().groups, 60.0)


def test_a_pool_is_one_node_of_cores() -> None:
    pool = Cluster.pool(64)
    assert pool.is_pool
    assert pool.capacity.tolist() == [[0, 64_000, 0]]
    assert not mixed().is_pool
    assert not Cluster.uniform(1, cpu=64).is_pool


def test_uniform() -> None:
    cluster = Cluster.uniform(84, gpu=8, cpu=32, memory_gib=256, name="paper", grace_limit_s=1200)
    assert (len(cluster), cluster.name, cluster.grace_limit_s) == (84, "paper", 1200)
    assert cluster.total.tolist() == [84 * 8000, 84 * 32_000, 84 * 256 * 1024]


GROUP = {"type": "a", "count": 1, "gpu": 0, "cpu": 4, "memory_gib": 1}
WRONG_GROUPS = [
    ({"type": ""}, "field type: expected a printable name of 1 to 256 characters, found ''"),
    ({"type": " a"}, "field type"),
    ({"type": "a\nb"}, "field type"),
    ({"type": 3}, "field type: .* found 3"),
    ({"count": 0}, "field count: expected a whole number of nodes from 1 to 1000000, found 0"),
    ({"count": 1_000_001}, "field count"),
    ({"count": 2.0}, "field count: .* found 2.0"),
    ({"count": True}, "field count: .* found True"),
    ({"gpu": -1}, "field gpu: expected a number from 0 to 1000000000, found -1"),
    ({"cpu": float("nan")}, "field cpu: .* found nan"),
    ({"memory_gib": float("inf")}, "field memory_gib: .* found inf"),
    ({"memory_gib": 10**5000}, "field memory_gib: .* found a number of 19 digits or more"),
    ({"cpu": "8"}, "field cpu: .* found '8'"),
    ({"cpu": False}, "field cpu: .* found False"),
    (
        {"cpu": 0.0004, "memory_gib": 0},
        "field cpu: expected a node with some GPU, cores or memory, found 0.0004",
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG_GROUPS)
def test_what_no_node_can_be(change: dict[str, object], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        NodeGroup(**(GROUP | change))  # pyright: ignore[reportArgumentType]


def test_what_no_cluster_can_be() -> None:
    group = NodeGroup("a", 600_000, 0, 4, 1)
    with pytest.raises(ClusterError, match="cluster c: expected at least one group of nodes"):
        Cluster("c", ())
    with pytest.raises(ClusterError, match="cluster c: expected at most 1000000 nodes, found 1200000"):
        Cluster("c", (group, group))
    for limit in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ClusterError, match="field grace_limit_s: expected a number from 0 to"):
            Cluster("c", (group,), limit)
    for units in (0, -3, 2.5, 10**12):
        with pytest.raises(ClusterError, match="a pool: expected a whole number of units from 1"):
            Cluster.pool(units)  # pyright: ignore[reportArgumentType]


def test_whole_numbers() -> None:
    assert whole_capacity([1.001, 0.29, 0.9999]).tolist() == [1001, 290, 1023]
    assert whole_demand([0.0001, 1.001, 12 / 7]).tolist() == [1, 1001, 1756]
    assert whole_demand([0.0, 1e-300, 0.001]).tolist() == [0, 1, 2]
    assert (whole_capacity([MOST] * 3) < whole_demand([1e300] * 3)).all()


def test_multiples() -> None:
    capacity = whole_capacity([8, 0, 1])
    demands = [
        [1, 0, 0],
        [0, 0, 1 / 3],
        [1 / 3, 0, 1e-9],
        [0, 1e-9, 0],
        [9, 0, 0],
        [1e308, 0, 0],
        [0.001, 0, 0],
    ]
    assert multiples_within(demands, capacity, 10_000).tolist() == [8, 3, 24, 0, 0, 0, 8000]
    assert multiples_within(demands, capacity, [5] * 7).tolist() == [5, 3, 5, 0, 0, 0, 5]


AMOUNTS = st.floats(0, 1e6)


@given(unit=AMOUNTS, room=st.floats(0.001, 1e6))
def test_one_multiple_more_does_not_fit(unit: float, room: float) -> None:
    capacity = whole_capacity([room, room, room])
    demand = np.array([[unit, 0.0, 0.0]])
    times = int(multiples_within(demand, capacity, 1000)[0])
    assert whole_demand(demand * times)[0, 0] <= capacity[0]
    assert times == 1000 or whole_demand(demand * (times + 1))[0, 0] > capacity[0]


@given(unit=AMOUNTS, times=st.integers(1, 64))
def test_rounding_never_gives_away_more_than_there_is(unit: float, times: int) -> None:
    down, up = whole_capacity([unit] * 3), whole_demand([unit] * 3)
    assert (down <= up).all()
    assert (up - down <= 1).all()
    # What is taken apart and put together again is what it was.
    assert (whole_demand([unit / times * times] * 3) <= up).all()


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, betimes.cluster; print([m for m in ('numpy', 'tomllib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
