"""Where the records of the nodes engine are in memory: on that its speed depends, and nothing else."""

from __future__ import annotations

import numpy as np

from betimes.core.columns import CACHE_LINE, side_by_side
from betimes.core.nodes.columns import Block, Due, NodesState, NodesView
from betimes.kernels import as_array
from betimes.policies.nodes.hooks import empty_cluster


def test_what_is_known_of_a_job_is_five_cache_lines_in_a_row() -> None:
    state = empty_cluster()
    assert state.memory.strides == (5 * CACHE_LINE, 8)
    assert state.memory.ctypes.data % CACHE_LINE == 0
    for records in (state.needs, state.jobs, state.progress):
        assert as_array(records).strides == (5 * CACHE_LINE,)


def test_a_block_of_the_queue_is_a_cache_line_of_its_own() -> None:
    blocks = as_array(empty_cluster().blocks)
    assert blocks.strides == (CACHE_LINE,)
    assert blocks.ctypes.data % CACHE_LINE == 0


def test_a_view_lists_its_arrays_the_other_way_round_than_the_state() -> None:
    fields = NodesState._fields
    assert [fields.index(name) for name in reversed(NodesView._fields)] == sorted(
        fields.index(name) for name in NodesView._fields
    )


def test_records_side_by_side_do_not_touch() -> None:
    memory, (blocks, dues) = side_by_side((Block, Due), 3)
    for name in as_array(blocks).dtype.names or ():
        as_array(blocks)[name] = 1
    for name in as_array(dues).dtype.names or ():
        as_array(dues)[name] = 2
    assert all((as_array(blocks)[name] == 1).all() for name in as_array(blocks).dtype.names or ())
    assert np.count_nonzero(memory) == 3 * (7 + 3)
