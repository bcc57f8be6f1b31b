"""Arrays without reference counts.

Numba counts references to every array that a function is given or puts into a variable, with an atomic
instruction each. The loop calls small functions with a dozen arrays, and the counting took most of its time. An
array whose owner is unknown is not counted: so the loop's entry points, whose callers hold the arrays anyway,
begin by forgetting the owners.
"""

from __future__ import annotations

from typing import Any

from betimes.core.columns import State
from betimes.core.kernel import INTERPRETED, kernel

if INTERPRETED:

    def borrowed(array: Any) -> Any:
        """The same array."""
        return array

else:
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def borrowed(typing_context: Any, array: Any) -> Any:
        """The same array, with no owner to count references for; the caller must keep the array alive."""

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            same = context.make_array(array)(context, builder, value=arguments[0])
            same.meminfo = cgutils.get_null_value(same.meminfo.type)
            same.parent = cgutils.get_null_value(same.parent.type)
            return same._getvalue()

        return array(array), code


@kernel
def borrowed_state(state: State) -> State:
    """The same state, of borrowed arrays."""
    return State(
        borrowed(state.jobs),
        borrowed(state.groups),
        borrowed(state.order),
        borrowed(state.pool),
        borrowed(state.speedup),
        borrowed(state.params),
        borrowed(state.table),
        borrowed(state.progress),
        borrowed(state.holders),
        borrowed(state.free),
        borrowed(state.grants),
        borrowed(state.again),
        borrowed(state.segments),
    )
