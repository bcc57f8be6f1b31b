"""Arrays of records: `records[i].field` in a kernel, `as_array(records)["field"]`, a column, in NumPy."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Protocol, TypeVar, cast, get_type_hints

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FloatTable = Annotated[NDArray[np.float64], 2]
IntTable = Annotated[NDArray[np.int64], 2]
"""With two dimensions; `Floats` and `Ints` have one."""

R = TypeVar("R")
Of_co = TypeVar("Of_co", covariant=True)


class Records(Protocol[R]):
    """An array of records of one kind: `records[i].field` is a number."""

    def __getitem__(self, at: int) -> R: ...
    def __setitem__(self, at: int, value: R) -> None: ...
    def __len__(self) -> int: ...


class Each(Protocol[Of_co]):
    """As `Records`, where only fields are read and written: of this kind, or of one that has its fields."""

    def __getitem__(self, at: int) -> Of_co: ...


def as_array(records: Records[Any]) -> NDArray[Any]:
    """The same records to NumPy: `as_array(records)["field"]` is a column."""
    return cast("NDArray[Any]", records)


@cache
def record_type(kind: type[Any]) -> np.dtype[np.record]:
    """The NumPy type of a record: the fields that class `kind` annotates, eight bytes each."""
    fields = get_type_hints(kind)
    if hidden := [name for name in fields if hasattr(np.record, name)]:
        raise ValueError(f"NumPy's records have attributes {hidden} of their own; choose other names")
    types = [(name, np.int64 if of is int else np.float64) for name, of in fields.items()]
    return cast("np.dtype[np.record]", np.dtype((np.record, np.dtype(types, align=True))))


def blank(kind: type[R], length: int) -> Records[R]:
    """An array of `length` records of `kind`, all zero."""
    return cast("Records[R]", np.zeros(length, dtype=record_type(kind)).view(np.recarray))
