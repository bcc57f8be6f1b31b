"""The queue in an array against a plain sorted list."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from betimes.core.pool import order
from betimes.core.pool.columns import State, new_state
from betimes.kernels import entry

enter, leave = entry(order.enter), entry(order.leave)
reach, reorder = entry(order.reach), entry(order.reorder)

SLOTS = 8
GROUPS = 2
KEYS = st.sampled_from([0.0, 1.0, 1.0, 2.0, 2.5, 1e9])


def empty() -> State:
    return new_state(
        SLOTS,
        GROUPS,
        units=4.0,
        fractional=False,
        restart_s=0.0,
        speedup=np.zeros((1, 2)),
        params=np.zeros(1),
        table=np.zeros((1, 1), dtype=np.int64),
    )


class Model:
    """What the arrays stand for: the slots of each group, in a list that Python sorts."""

    def __init__(self) -> None:
        self.state = empty()
        self.lines: list[list[int]] = [[] for _ in range(GROUPS)]
        self.ranks: dict[int, tuple[float, int]] = {}
        self.demand: dict[int, int] = {}
        self.submitted = 0

    def enter(self, group: int, key: float, most: int) -> None:
        slot = next(s for s in range(SLOTS) if all(s not in line for line in self.lines))
        job = self.state.jobs[slot]
        job.key, job.seq, job.group, job.max_units, job.units = key, self.submitted, group, most, 0.0
        self.ranks[slot] = (key, self.submitted)
        self.demand[slot] = min(most, int(self.state.pool[0].units))
        self.submitted += 1
        self.lines[group] = sorted([*self.lines[group], slot], key=self.ranks.__getitem__)
        enter(self.state, slot)

    def leave(self, group: int, at: int) -> None:
        slot = self.lines[group].pop(at)
        leave(self.state, slot)

    def rekey(self, group: int, keys: list[float]) -> None:
        """New keys for the first jobs of a group, as if those were the ones that hold units."""
        for slot, key in zip(self.lines[group], keys, strict=False):
            self.state.jobs[slot].key = key
            self.ranks[slot] = key, self.ranks[slot][1]
        stop = int(self.state.groups[group].head) + min(len(keys), len(self.lines[group]))
        self.lines[group].sort(key=self.ranks.__getitem__)
        reorder(self.state, group, stop)

    def check(self) -> None:
        for number, line in enumerate(self.lines):
            group = self.state.groups[number]
            assert self.state.order[number, group.head : group.tail].tolist() == line
            assert group.demand == sum(self.demand[slot] for slot in line)


@given(data=st.data())
def test_a_group_is_a_sorted_list(data: st.DataObject) -> None:
    model = Model()
    for _ in range(data.draw(st.integers(1, 60), label="steps")):
        group = data.draw(st.integers(0, GROUPS - 1), label="group")
        line = model.lines[group]
        possible = ["rekey"] if line else []
        possible += ["leave"] if line else []
        possible += ["enter", "enter"] if sum(map(len, model.lines)) < SLOTS else []
        if not possible:
            continue  # every slot is in the other group
        match data.draw(st.sampled_from(possible), label="step"):
            case "enter":
                model.enter(group, data.draw(KEYS, label="key"), data.draw(st.integers(1, 9), label="most"))
            case "leave":
                model.leave(group, data.draw(st.integers(0, len(line) - 1), label="at"))
            case "rekey":
                model.rekey(group, data.draw(st.lists(KEYS, max_size=len(line)), label="keys"))
        model.check()


def test_a_line_that_reaches_the_end_of_its_array_moves_back() -> None:
    # In turn out at the head and in at the tail: the line wanders through the array, many times its length.
    model = Model()
    for _ in range(5):
        model.enter(0, 1.0, 1)
    for _ in range(20 * SLOTS):
        model.leave(0, 0)
        model.enter(0, 1.0, 2)
        model.check()


@given(held=st.lists(st.booleans(), min_size=1, max_size=SLOTS), of_group=st.integers(0, GROUPS - 1))
def test_reach_is_the_first_place_behind_all_who_hold_units(held: list[bool], of_group: int) -> None:
    model = Model()
    for at, holds in enumerate(held):
        model.enter(of_group, float(at), 1)
        if holds:
            slot = model.lines[of_group][-1]
            model.state.jobs[slot].units = 1.0
            pool = model.state.pool[0]
            model.state.holders[pool.holders] = slot
            pool.holders += 1
    last = max((at + 1 for at, holds in enumerate(held) if holds), default=0)
    assert reach(model.state, of_group) == model.state.groups[of_group].head + last
    assert reach(model.state, 1 - of_group) == model.state.groups[1 - of_group].head
