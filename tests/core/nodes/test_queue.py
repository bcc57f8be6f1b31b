"""The queue of the nodes engine against a sorted list, through very many changes."""

from __future__ import annotations

import bisect

import numpy as np
import pytest

from betimes.core.nodes.columns import BLOCK, NodesState
from betimes.core.nodes.directory import block_at
from betimes.core.nodes.queue import all_waiting, first, insert, remove, remove_at
from betimes.kernels import Floats, Ints, entry, kernel
from tests.core.nodes.empty_cluster import empty_cluster

SLOTS = 40 * BLOCK


@entry
@kernel
def put(state: NodesState, slot: int, key: float, seq: int) -> None:
    state.jobs[slot].key = key
    state.jobs[slot].seq = seq
    insert(state, slot)


@entry
@kernel
def take(state: NodesState, slot: int) -> None:
    remove(state, slot)


@entry
@kernel
def take_first(state: NodesState) -> None:
    remove_at(state, 0, state.blocks[block_at(state, 0)].head)


@entry
@kernel
def head(state: NodesState) -> int:
    return first(state)


@entry
@kernel
def listed(state: NodesState, slots: Ints) -> int:
    return all_waiting(state, slots)


def keys_of(kind: str, rng: np.random.Generator, count: int) -> Floats:
    """What jobs rank by, in the order of their submission."""
    return {
        "all the same": np.zeros(count),
        "a few": rng.integers(0, 5, count).astype(np.float64),
        "anywhere": rng.normal(size=count),
        "ever earlier": -np.arange(count, dtype=np.float64),
        "ever later": rng.random(count) + np.arange(count) / BLOCK,
        "without bounds": rng.choice([-np.inf, -1.0, 0.0, 1.0, np.inf], count),
    }[kind]


@pytest.mark.parametrize(
    "kind", ["all the same", "a few", "anywhere", "ever earlier", "ever later", "without bounds"]
)
@pytest.mark.parametrize("most", [BLOCK - 1, 3 * BLOCK, SLOTS])
@pytest.mark.parametrize("from_within", [0.3, 0.0])
def test_the_queue_is_a_sorted_list(kind: str, most: int, from_within: float) -> None:
    rng = np.random.default_rng(most)
    changes = 4 * SLOTS
    state, expected = empty_cluster(SLOTS), list[tuple[float, int, int]]()
    keys, unused, grows = keys_of(kind, rng, changes), list(range(SLOTS)), True
    for seq in range(changes):
        grows = grows if 0 < len(expected) < most else not expected
        if not expected or (unused and len(expected) < most and rng.random() < (0.8 if grows else 0.2)):
            slot = unused.pop(int(rng.integers(len(unused))))
            put(state, slot, keys[seq], seq)
            bisect.insort(expected, (float(keys[seq]), seq, slot))
        else:  # whoever is first, mostly, as when nobody goes ahead of others
            at = int(rng.integers(len(expected))) if rng.random() < from_within else 0
            *_, slot = expected.pop(at)
            if at > 0:
                take(state, slot)
            else:
                take_first(state)
            unused.append(slot)
        assert head(state) == (expected[0][2] if expected else -1)
        if seq % (SLOTS // 2) == 0:
            slots = np.zeros(SLOTS, dtype=np.int64)
            count = listed(state, slots)
            assert slots[:count].tolist() == [slot for *_, slot in expected]
