"""A hint to the processor that a record will be wanted soon.

With a hundred thousand jobs waiting, what the engine knows of them lies far from the processor, and the next one to
start can be anywhere in it. Asked for some events earlier, its records arrive while something else is worked out. The
hint changes nothing but the time that the first look takes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from betimes.core.columns import CACHE_LINE, Records
from betimes.core.kernel import INTERPRETED, numba

TO_WRITE, KEEP, DATA = 1, 3, 1  # what the compiler wants to know: it will be changed, it stays in all caches


def prefetch(records: Records[Any], at: int) -> None:
    """Have records[at] fetched, which is about to be read and changed; interpreted, nothing at all."""


def _compiled() -> Any:
    ir, cgutils = import_module("llvmlite.ir"), import_module("numba.core.cgutils")

    def typed(typing: Any, records: Any, at: Any) -> Any:
        def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            array = context.make_array(kind)(context, builder, arguments[0])
            record = cgutils.get_item_pointer(
                context, builder, kind, array, [arguments[1]], wraparound=False, boundscheck=False
            )
            byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
            hint = builder.module.declare_intrinsic(
                "llvm.prefetch", (byte,), ir.FunctionType(ir.VoidType(), (byte, flag, flag, flag))
            )
            begin, size = builder.bitcast(record, byte), kind.dtype.size
            # A record need not begin with a cache line: its last byte may lie in one more.
            for offset in (*range(0, size, CACHE_LINE), size - 1):
                line = builder.gep(begin, [ir.Constant(ir.IntType(64), offset)])
                builder.call(hint, [line, *(ir.Constant(flag, word) for word in (TO_WRITE, KEEP, DATA))])
            return context.get_dummy_value()

        return numba.types.void(records, at), lowered

    return numba.extending.intrinsic(typed)


if not INTERPRETED:
    prefetch = _compiled()
