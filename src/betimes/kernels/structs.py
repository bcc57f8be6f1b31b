"""Arrays, numbers and hooks, passed to a kernel as one address.

Passed a NamedTuple of thirty arrays, a compiled function copies thirty array headers at every call. A `Struct` is the
address of a block of words instead, and ``state.jobs`` in a kernel makes the array from the words of that field where
it is used::

    class State(Struct):
        jobs: Records[Job]  # two words: the address of the first record, their number
        speedup: FloatTable  # three: the address, rows, columns
        limit: float  # one
        rank: Callable[[State, float], int]  # one: the address of a compiled function

To Python a struct is an object with these attributes, which cannot be set: `replaced` makes another. It keeps its
arrays alive, and must itself be kept for as long as a kernel runs on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self, dataclass_transform, get_args, get_origin, get_type_hints

import numpy as np

from betimes.kernels.records import Floats, FloatTable, Ints, IntTable, Records, record_type
from betimes.kernels.settings import INTERPRETED

ARRAY_TYPES: dict[Any, tuple[Any, int]] = {
    Floats: (np.dtype(np.float64), 1),
    Ints: (np.dtype(np.int64), 1),
    FloatTable: (np.dtype(np.float64), 2),
    IntTable: (np.dtype(np.int64), 2),
}
SCALAR_TYPES: dict[Any, Any] = {float: np.float64, int: np.int64, bool: np.bool_}


class Field(NamedTuple):
    """The position of a field in the block of words, and its type.

    `dtype` and `ndim` of an array; of a number its dtype, and ndim 0; of a hook `parameters` and `returns`.
    """

    name: str
    offset: int
    dtype: np.dtype[Any] | None = None
    ndim: int = 0
    parameters: tuple[Any, ...] = ()
    returns: Any = None

    @property
    def words(self) -> int:
        """Number of words: an array's address and lengths, else one."""
        return 1 + self.ndim


class Layout(NamedTuple):
    """The fields of a struct in the order of its words, and a digest of all that compiled code relies on.

    mark: the first word of every block of this struct, so that an entry can tell it from another.
    """

    fields: dict[str, Field]
    words: int
    digest: str
    mark: int


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Struct:
    """A base class; see the module. Subclasses annotate their fields, and are made by keyword.

    Raises TypeError where a value is missing, unknown, or of another type than annotated.
    """

    address: int
    """Of the block of words."""

    _views: ClassVar[type[Struct] | None] = None
    _names: ClassVar[dict[str, str]] = {}

    def __init__(self, **values: Any) -> None:
        fields, words, _, mark = layout_of(type(self))
        if values.keys() != fields.keys():
            raise self._odd(values.keys() ^ fields.keys())
        block = np.zeros(words, dtype=np.int64)
        block[0] = mark
        self._fill(block, values)

    def _fill(self, block: Ints, values: Mapping[str, Any]) -> None:
        fields = layout_of(type(self)).fields
        for name, value in values.items():
            _write(block, fields[name], value, type(self).__name__)
        self.__dict__.update(values, _block=block, address=_address_of(block))

    def _odd(self, names: Iterable[str]) -> TypeError:
        return TypeError(f"{type(self).__name__}: missing or unknown fields {', '.join(sorted(names))}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be set; `replaced` makes another struct")

    def replaced(self, **changes: Any) -> Self:
        """The same, but for these fields; arrays are shared."""
        if unknown := changes.keys() - layout_of(type(self)).fields.keys():
            raise self._odd(unknown)
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._fill(self.__dict__["_block"].copy(), changes)  # what does not change stands in it already
        return made

    def values(self) -> dict[str, Any]:
        """The fields by name."""
        return {name: self.__dict__[name] for name in layout_of(type(self)).fields}


@cache
def layout_of(cls: type[Struct]) -> Layout:
    """The layout of a struct by its annotations; of a view, in the viewed struct."""
    hints = {
        name: hint
        for name, hint in get_type_hints(cls, include_extras=True).items()
        if name != "address" and get_origin(hint) is not ClassVar
    }
    if cls._views is not None:
        whole = layout_of(cls._views)
        fields = {name: whole.fields[cls._names.get(name, name)] for name in hints}
        return Layout(fields, whole.words, _digest(fields), whole.mark)
    fields, offset = dict[str, Field](), 1
    for name, hint in hints.items():
        fields[name] = _field(cls, name, offset, hint)
        offset += fields[name].words
    digest = _digest(fields)
    return Layout(fields, offset, digest, int(digest, 16))


def _field(cls: type[Struct], name: str, offset: int, hint: Any) -> Field:
    if hint in ARRAY_TYPES:
        return Field(name, offset, *ARRAY_TYPES[hint])
    if hint in SCALAR_TYPES:
        return Field(name, offset, np.dtype(SCALAR_TYPES[hint]))
    if get_origin(hint) is Records:
        return Field(name, offset, record_type(get_args(hint)[0]), 1)
    if get_origin(hint) is Callable:
        parameters, returns = get_args(hint)
        return Field(name, offset, parameters=tuple(parameters), returns=returns)
    raise TypeError(f"{cls.__name__}.{name}: {hint} is no array, number or hook")


def _digest(fields: dict[str, Field]) -> str:
    described = [(name, str(field)) for name, field in fields.items()]
    return hashlib.sha256(repr(described).encode()).hexdigest()[:12]


def _write(block: Ints, field: Field, value: Any, of: str) -> None:
    at = field.offset
    if field.ndim > 0:
        # Not as records, of which each attribute is looked for among their fields first.
        array = np.ndarray.view(value, np.ndarray) if isinstance(value, np.ndarray) else None
        if array is None or array.dtype != field.dtype or array.ndim != field.ndim:
            found = type(value) if array is None else f"{array.dtype}, {array.ndim} dimensions"
            raise TypeError(
                f"{of}.{field.name}: expected {field.dtype}, {field.ndim} dimensions; found {found}"
            )
        if not array.flags.c_contiguous:
            raise TypeError(f"{of}.{field.name}: the array is not contiguous")
        block[at] = _address_of(array)
        block[at + 1 : at + 1 + field.ndim] = array.shape
    elif field.dtype is not None:
        block[at : at + 1].view(np.float64 if field.dtype == np.float64 else np.int64)[0] = value
    elif not INTERPRETED:
        block[at] = value.address


def _address_of(array: np.ndarray[Any, Any]) -> int:
    return (
        array.ctypes.data
    )  # `__array_interface__` describes the fields of records, which takes ten times as long


class Hook:
    """A compiled function as a struct's field takes it; `address` is where its code is, for as long as this lives."""

    def __init__(self, address: int, function: Callable[..., Any], keep: object) -> None:
        self.address, self.function, self._keep = address, function, keep
