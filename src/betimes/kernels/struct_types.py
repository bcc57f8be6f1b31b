"""The Numba types of a `Struct`: a struct is one address, and an attribute is made from the words there.

Nothing changes the words while a kernel runs, so that LLVM may keep what it has loaded of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, get_args, get_origin

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, Signature
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import populate_array

from betimes.kernels.records import Records, record_type
from betimes.kernels.structs import ARRAY_TYPES, SCALAR_TYPES, Field, Struct, layout_of

WORD = ir.IntType(64)


class StructType(types.Type):
    """A struct, or a view of one. Two with other fields are other types, also to what has been kept of them."""

    def __init__(self, module: str, name: str, digest: str) -> None:
        self.module, self.struct_name = module, name
        super().__init__(name=f"{module}.{name}<{digest}>")

    @property
    def struct(self) -> type[Struct]:
        """The class."""
        return getattr(import_module(self.module), self.struct_name)


def struct_type(cls: type[Struct]) -> StructType:
    """The Numba type of a struct's class, which is at the top level of a module."""
    return StructType(cls.__module__, cls.__name__, layout_of(cls).digest)


def type_of(annotation: Any) -> Any:
    """The Numba type of a parameter or a result with this annotation; raises TypeError where it has none."""
    if annotation is None or annotation is type(None):
        return types.void
    if annotation in SCALAR_TYPES:
        return from_dtype(np.dtype(SCALAR_TYPES[annotation]))
    if annotation in ARRAY_TYPES:
        dtype, ndim = ARRAY_TYPES[annotation]
        return types.Array(from_dtype(dtype), ndim, "C")
    if get_origin(annotation) is Records:
        return types.Array(from_dtype(record_type(get_args(annotation)[0])), 1, "C")
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return struct_type(annotation)
    raise TypeError(f"{annotation} has no type in a compiled function")


def signature_of(parameters: tuple[Any, ...], returns: Any) -> Signature:
    """The Numba signature of a function with these annotations."""
    return type_of(returns)(*map(type_of, parameters))


def viewing(view: type[Struct], of: type[Struct], interpreted: Callable[[Any], Any]) -> Any:
    """`views.view_by`, for kernels; also called from Python."""

    def typed(typing: Any, struct: Any) -> Any:
        if struct == struct_type(of):
            return struct_type(view)(struct), lambda context, builder, signature, given: given[0]
        return None

    function = intrinsic(typed)
    function.__class__ = type(
        "View", (type(function),), {"__call__": lambda self, struct: interpreted(struct)}
    )
    return function


@typeof_impl.register(Struct)
def _(value: Struct, context: Any) -> StructType:
    return struct_type(type(value))


@register_model(StructType)
class _Address(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: StructType) -> None:
        super().__init__(manager, kind, WORD)


@unbox(StructType)
def _(kind: StructType, value: Any, c: Any) -> NativeValue:
    builder = c.builder
    address, is_wrong = (
        cgutils.alloca_once(builder, WORD),
        cgutils.alloca_once_value(builder, cgutils.true_bit),
    )
    held = c.pyapi.object_getattr_string(value, "address")
    with builder.if_then(cgutils.is_not_null(builder, held)):
        builder.store(c.pyapi.long_as_longlong(held), address)
        c.pyapi.decref(held)
        mark = _load(builder, builder.load(address), 0)
        builder.store(builder.icmp_signed("!=", mark, WORD(layout_of(kind.struct).mark)), is_wrong)
        with builder.if_then(builder.load(is_wrong)):
            message = f"expected a {kind.struct.__name__}, found another struct"
            c.pyapi.err_set_string("PyExc_TypeError", message)
    return NativeValue(builder.load(address), is_error=builder.load(is_wrong))


@cache
def _array_or_number(dtype: np.dtype[Any], ndim: int) -> Any:
    """The type of a field; records of many fields take long to translate, and are read everywhere."""
    of = from_dtype(dtype)
    return types.Array(of, ndim, "C") if ndim else of


class _HookKey(NamedTuple):
    """The key by which typing and code of a hook's call are found."""

    parameters: tuple[Any, ...]
    returns: Any
    offset: int


@infer_getattr
class _Attributes(AttributeTemplate):
    key = StructType

    def generic_resolve(self, kind: StructType, name: str) -> Any:
        field = layout_of(kind.struct).fields.get(name)
        if field is None:
            return None
        if field.dtype is None:
            return types.BoundFunction(_hook_template(field), kind)
        return _array_or_number(field.dtype, field.ndim)


@lower_getattr_generic(StructType)
def _(context: Any, builder: Any, kind: StructType, address: Any, name: str) -> Any:
    field = layout_of(kind.struct).fields[name]
    if field.dtype is None:
        return address  # a hook's pointer is loaded where it is called
    if field.ndim == 0:
        word = _load(builder, address, field.offset, ir.DoubleType() if field.dtype == np.float64 else WORD)
        return builder.icmp_signed("!=", word, WORD(0)) if field.dtype == np.bool_ else word
    of = _array_or_number(field.dtype, field.ndim)
    array = context.make_array(of)(context, builder)
    shape = [_load(builder, address, field.offset + 1 + at) for at in range(field.ndim)]
    strides, step = list[Any](), WORD(field.dtype.itemsize)
    for length in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, length)
    populate_array(
        array,
        data=builder.inttoptr(
            _load(builder, address, field.offset), context.get_data_type(of.dtype).as_pointer()
        ),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=WORD(field.dtype.itemsize),
        meminfo=None,
    )
    return array._getvalue()


def _load(builder: Any, address: Any, word: int, of: Any = WORD) -> Any:
    loaded = builder.load(builder.gep(builder.inttoptr(address, of.as_pointer()), [WORD(word)]))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


@cache
def _hook_template(field: Field) -> type[AbstractTemplate]:
    """The type of calls of a hook; the code of a call loads its address, and hands its errors on."""
    hook = signature_of(field.parameters, field.returns)

    class Template(AbstractTemplate):
        key = _HookKey(hook.args, hook.return_type, field.offset)

        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) != len(hook.args) or kws:
                return None
            return Signature(hook.return_type, hook.args, recvr=self.this)  # pyright: ignore[reportAttributeAccessIssue]

    @lower_builtin(Template.key, StructType, types.VarArg(types.Any))
    def _(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        convention = context.call_conv
        of = convention.get_function_type(hook.return_type, hook.args)
        pointer = builder.inttoptr(_load(builder, given[0], field.offset), of.as_pointer())
        status, result = convention.call_function(builder, pointer, hook.return_type, hook.args, given[1:])
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return Template
