"""A machine's worth with one more task of each group: the innermost step of all packing, compiled."""

from __future__ import annotations

import math

from betimes.kernels import Floats, FloatTable, Ints, IntTable, entry, kernel


@kernel
def candidates_of(
    needed: IntTable,
    capacity: Ints,
    kind: Ints,
    price: Floats,
    weight: Floats,
    pairs: FloatTable,
    members: Ints,
    kinds: Ints,
    own: Floats,
    slowed: FloatTable,
    floor: float,
    levels_a_usd: float,
    first: int,
    found: IntTable,
    worth: FloatTable,
) -> int:
    """Write the groups from `first` on with room for one more task, with level and alignment; returns their number.

    needed: demand of a task of each group on the machine's family. members, kinds: the machine's tasks by group and by
    kind, sorted. own[kind], slowed[kind, new]: throughputs recorded in place of the product of pairs, NaN where none
    is; empty if none is at all. found: (group, level, alignment) by candidate; worth: two scratch columns.
    """
    free_gpu, free_cpu, free_memory = capacity[0], capacity[1], capacity[2]
    for at in range(len(members)):
        free_gpu -= needed[members[at], 0]
        free_cpu -= needed[members[at], 1]
        free_memory -= needed[members[at], 2]
    count = 0
    for group in range(first, len(needed)):
        gpu, cpu, memory = needed[group, 0], needed[group, 1], needed[group, 2]
        if gpu > free_gpu or cpu > free_cpu or memory > free_memory:
            continue
        alignment = _share(gpu, free_gpu, capacity[0])
        alignment += _share(cpu, free_cpu, capacity[1])
        alignment += _share(memory, free_memory, capacity[2])
        found[count, 0], found[count, 2] = group, _rounded(alignment * levels_a_usd)
        throughput = _beside(pairs, kind[group], kinds, -1)
        if len(own) > 0 and not math.isnan(own[kind[group]]):
            throughput = own[kind[group]]
        worth[count, 0] = max(floor, price[group] - (1.0 - throughput) * weight[group])
        worth[count, 1] = 0.0
        count += 1
    at = 0
    while at < len(members):
        group, copies = int(members[at]), 0
        while at < len(members) and members[at] == group:
            copies += 1
            at += 1
        known = _beside(pairs, kind[group], kinds, kind[group])
        for candidate in range(count):
            new = kind[found[candidate, 0]]
            throughput = known * pairs[kind[group], new]
            if len(slowed) > 0 and not math.isnan(slowed[kind[group], new]):
                throughput = slowed[kind[group], new]
            lost = (1.0 - throughput) * weight[group]
            worth[candidate, 1] += copies * max(floor, price[group] - lost)
    for candidate in range(count):
        found[candidate, 1] = _rounded((worth[candidate, 0] + worth[candidate, 1]) * levels_a_usd)
    return count


@kernel
def _share(needed: int, free: int, size: int) -> float:
    """The match of a demand and the free amount of a resource, each as a share of the machine's."""
    return (needed / size) * (free / size) if size > 0 else 0.0


@kernel
def _beside(pairs: FloatTable, kind: int, kinds: Ints, without: int) -> float:
    """The product of a kind's pairs with its neighbours, without one neighbour of kind `without`."""
    product, at = 1.0, 0
    while at < len(kinds):
        other, copies = kinds[at], 0
        while at < len(kinds) and kinds[at] == other:
            copies += 1
            at += 1
        if other == without:
            copies -= 1
        product *= pairs[kind, other] ** float(copies)
    return product


@kernel
def _rounded(value: float) -> int:
    """To the nearest whole number, halves to the even one."""
    down = math.floor(value)
    rest = value - down
    whole = int(down)
    if rest > 0.5 or (rest == 0.5 and whole % 2 == 1):
        whole += 1
    return whole


weigh = entry(candidates_of)
