"""Workloads to Betimes's own files; reading one back gives an equal workload with the same fingerprint."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from betimes.errors import InputError
from betimes.files import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

    from betimes.workload.workload import Workload

# What the files carry beside the columns is a note in JSON: name, machine size, origin, types of further columns.
MARK = "# betimes-workload "  # opens the first line of a CSV file
KEY = b"betimes-workload"  # in the metadata of a Parquet file


def write(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Write the workload in the format that the file's name asks for: .parquet, .csv or .csv.gz."""
    name = Path(path).name.lower()
    if name.endswith(".parquet"):
        to_parquet(workload, path)
    elif name.endswith((".csv", ".csv.gz")):
        to_csv(workload, path)
    else:
        raise InputError(f"{path}: expected a name that ends in .parquet, .csv or .csv.gz")


def to_csv(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Write Betimes's CSV, compressed where the name ends in .gz: the same bytes for the same workload."""
    import pyarrow.csv as pa_csv

    note = (MARK + json.dumps(_note(workload), sort_keys=True) + "\n").encode()

    def put(file: IO[bytes]) -> None:
        file.write(note)
        pa_csv.write_csv(_table(workload, nan_as_null=True), file)

    def put_compressed(file: IO[bytes]) -> None:
        # No name and no time in the gzip header, which would make equal files differ.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0, compresslevel=6) as compressed:
            put(compressed)  # pyright: ignore[reportArgumentType]

    _write(Path(path), put_compressed if Path(path).name.lower().endswith(".gz") else put)


def to_parquet(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Write Betimes's Parquet: the same bytes for the same workload and library version."""
    import pyarrow.parquet as pq

    table = _table(workload, nan_as_null=False)
    table = table.replace_schema_metadata({KEY: json.dumps(_note(workload), sort_keys=True).encode()})
    _write(Path(path), lambda file: pq.write_table(table, file, compression="zstd"))


def _table(workload: Workload, *, nan_as_null: bool) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, pa.Array] = {}
    for name in workload.stated_names:
        if name == "curve":
            columns["curve"] = _names(workload.curve, workload.curve_names)
        elif name == "user" and workload.user_names:
            columns["user_name"] = _names(workload.user, workload.user_names)
        else:
            columns[name] = pa.array(getattr(workload, name), from_pandas=nan_as_null)
    for name, values in workload.extra.items():
        columns[name] = pa.array(values, from_pandas=nan_as_null)
    return pa.table(columns)


def _names(codes: np.ndarray, names: tuple[str, ...]) -> pa.Array:
    import pyarrow as pa

    lookup = pa.array([*names, ""], pa.string())
    return lookup.take(pa.array(np.where(codes >= 0, codes, len(names)), pa.int64()))


def _note(workload: Workload) -> dict[str, object]:
    kinds = {"i": "int64", "f": "float64", "U": "text"}
    return {
        "name": workload.name,
        "machine_units": workload.machine_units,
        "header": dict(workload.notes.header),
        "extra": {name: kinds[values.dtype.kind] for name, values in workload.extra.items()},
    }


def _write(path: Path, put: Callable[[IO[bytes]], None]) -> None:
    try:
        with whole_file(path) as file:
            put(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
