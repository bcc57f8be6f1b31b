"""When two workloads are the same: a fingerprint that is stable across machines, and equality."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from betimes.workload.columns import CANONICAL_NAMES, UNKNOWN, AnyColumn, identifiers, recoded

if TYPE_CHECKING:
    from betimes.workload.workload import Workload


def fingerprint(workload: Workload) -> str:
    """SHA-256 (hexadecimal) over the canonical columns that `stated_names` lists: little-endian, names instead of
    codes, one NaN, one zero.
    """
    digest = hashlib.sha256(b"betimes workload 2\n")
    for name in workload.stated_names:
        values, names = _resolved(workload, name)
        digest.update(f"{name} {values.dtype.kind} {len(values)}\n".encode())
        if values.dtype.kind == "U":
            for value in values:
                digest.update(f"{len(value)}:{value}".encode())
        else:
            digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
        for entry in names:
            digest.update(f"{len(entry)}:{entry}".encode())
    return digest.hexdigest()


def same(a: Workload, b: Workload) -> bool:
    """Whether both hold the same jobs on the same machine; their names and notes may differ."""
    if len(a) != len(b) or a.machine_units != b.machine_units or a.extra.keys() != b.extra.keys():
        return False
    for name in CANONICAL_NAMES:
        (mine, names), (theirs, other_names) = _resolved(a, name), _resolved(b, name)
        if names != other_names or not _equal(mine, theirs):
            return False
    return all(_equal(values, b.extra[name]) for name, values in a.extra.items())


def _equal(a: AnyColumn, b: AnyColumn) -> bool:
    return a.dtype.kind == b.dtype.kind and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def _resolved(workload: Workload, name: str) -> tuple[AnyColumn, tuple[str, ...]]:
    """A canonical column in the one form that does not depend on how its codes were dealt."""
    values: AnyColumn = getattr(workload, name)
    if name == "curve":
        return recoded(values, workload.curve_names)
    if name == "user" and workload.user_names:
        codes, names = recoded(values, workload.user_names)
        numbers = identifiers(list(names))
        # A part of a workload may have kept only those names that are numbers.
        return (np.append(numbers, UNKNOWN)[codes], ()) if numbers.dtype.kind == "i" else (codes, names)
    if values.dtype.kind == "U":
        return identifiers(values.tolist()), ()
    if values.dtype.kind == "f":
        return np.where(np.isnan(values), np.nan, values + 0.0), ()
    return values, ()
