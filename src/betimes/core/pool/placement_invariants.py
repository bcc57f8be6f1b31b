"""What is true of the nodes of a pool after every event: everything is somewhere, once, and fits (`invariants`)."""

from __future__ import annotations

from collections import defaultdict

from betimes.core.pool.columns import State
from betimes.errors import BetimesError

RESOURCES = ("gpu", "cpu", "memory")


class BrokenInvariant(BetimesError):
    """The state contradicts itself; names the invariant and the job."""


def check_places(state: State, active: list[int]) -> None:
    """Raise BrokenInvariant if a node is overfull, or units are not where they should be."""
    now = {slot: _list(state, slot, int(state.footprints[slot].placed)) for slot in active}
    for slot, places in now.items():
        units = state.jobs[slot].units
        if sum(places.values()) != units:
            raise _broken("units placed", f"slot {slot} holds {units:g} units and has {places} on nodes")
    _check_nodes(state, now, noted=True)
    touched = _touched(state)
    if not touched <= set(active):
        raise _broken("touched", f"slots {touched - set(active)} are not active")
    for slot in active:
        footprint = state.footprints[slot]
        if (footprint.touched == 1) != (slot in touched) or (slot not in touched and footprint.before != -1):
            raise _broken("touched", f"slot {slot} thinks otherwise of whether its placements have changed")
    before = {slot: _list(state, slot, int(state.footprints[slot].before)) for slot in touched}
    if state.pool[0].instant == state.pool[0].now:
        _check_nodes(state, now | before, noted=False)
        for slot, places in before.items():
            since, held = state.progress[slot].since, state.progress[slot].units_before
            if since == state.pool[0].now and sum(places.values()) != held:
                raise _broken("units before", f"slot {slot} held {held:g} units and had {places} on nodes")
    _check_spare(state, sum(map(len, now.values())) + sum(map(len, before.values())))


def _broken(invariant: str, what: str) -> BrokenInvariant:
    return BrokenInvariant(f"invariant '{invariant}': {what}")


def _list(state: State, slot: int, first: int) -> dict[int, int]:
    """Units by node."""
    found: dict[int, int] = {}
    while first >= 0:
        placement = state.placements[first]
        if placement.node in found or placement.tasks < 1:
            raise _broken(
                "placements", f"slot {slot} has {placement.tasks} units on node {placement.node} again"
            )
        found[int(placement.node)] = int(placement.tasks)
        first = int(placement.follows)
    return found


def _check_nodes(state: State, places: dict[int, dict[int, int]], noted: bool) -> None:
    """What all take together fits into every node, and (`noted`) is what the node's free amounts say."""
    taken: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for slot, units in places.items():
        for node, count in units.items():
            for at, name in enumerate(RESOURCES):
                taken[node][at] += count * int(getattr(state.footprints[slot], name))
    for number in range(len(state.nodes)):
        node = state.nodes[number]
        for name, amount in zip(RESOURCES, taken[number], strict=True):
            capacity, free = int(getattr(node, name)), int(getattr(node, f"free_{name}"))
            if amount > capacity or (noted and free != capacity - amount):
                raise _broken("nodes", f"node {number} has {capacity} {name}: {free} free and {amount} taken")


def _touched(state: State) -> set[int]:
    found, slot = set[int](), int(state.pool[0].touched)
    while slot >= 0:
        if slot in found:
            raise _broken("touched", f"slot {slot} is listed twice")
        found.add(slot)
        slot = int(state.footprints[slot].follows)
    return found


def _check_spare(state: State, used: int) -> None:
    pool, spare, at = state.pool[0], 0, int(state.pool[0].unused_head)
    while at >= 0:
        spare, at = spare + 1, int(state.placements[at].follows)
    if spare != pool.unused or spare + used != len(state.placements):
        raise _broken("placements", f"{used} are used and {spare} spare, of {len(state.placements)}")
