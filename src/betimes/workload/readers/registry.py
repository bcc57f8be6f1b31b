"""All trace formats, and the one function that reads any of them."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from types import MappingProxyType

from betimes.errors import InputError, TraceError, did_you_mean
from betimes.workload.readers.gpu_traces import EVA, OPENB, PHILLY_JOBS, PHILLY_PCS
from betimes.workload.readers.own import CSV, PARQUET
from betimes.workload.readers.rows import OnBadRows, Tally
from betimes.workload.readers.sacct import SACCT
from betimes.workload.readers.source import Source
from betimes.workload.readers.swf import SWF
from betimes.workload.readers.trace_format import Opening, TraceFormat
from betimes.workload.workload import Workload

# Every format by name; `str(FORMATS[name])` is its description on one line. Recognised in this order.
FORMATS: Mapping[str, TraceFormat] = MappingProxyType(
    {each.name: each for each in (PARQUET, SWF, PHILLY_PCS, PHILLY_JOBS, OPENB, EVA, SACCT, CSV)}
)
# Names that stand for whichever of several formats the file is in.
FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType({"philly": ("philly-pcs", "philly-jobs")})


def read_trace(
    path: str | os.PathLike[str],
    format: str = "auto",  # noqa: A002 (the word of the command line)
    on_bad_rows: OnBadRows = "fail",
) -> Workload:
    """Read a trace file, plain or gzip, into a workload.

    `format` is a name of `FORMATS`, "philly" (either Philly format) or "auto" (by content, else by the file's
    name). `on_bad_rows` is "fail" (a malformed row raises TraceError with file, line and field) or "skip" (it
    is left out and counted in `notes.skipped`). Raises InputError for an unknown format and TraceError for
    everything in the file.
    """
    if on_bad_rows not in ("fail", "skip"):
        raise InputError(f"on_bad_rows: expected fail or skip, found {on_bad_rows!r}")
    if format != "auto" and format not in FORMATS and format not in FAMILIES:
        raise InputError(_unknown(format))
    with Source(path) as source:
        chosen = (
            FORMATS[format]
            if format in FORMATS
            else _recognised(source, FAMILIES.get(format, tuple(FORMATS)))
        )
        return chosen.read(source, Tally(source.path, on_bad_rows))


def _recognised(source: Source, names: tuple[str, ...]) -> TraceFormat:
    opening = _opening(source.opening)
    if not source.opening.strip():
        raise TraceError("the file is empty: expected a trace", source.path)
    for name in names:
        if FORMATS[name].recognise(opening):
            return FORMATS[name]
    plain = source.path.name.lower().removesuffix(".gz")
    for name in names:
        if FORMATS[name].suffixes and plain.endswith(FORMATS[name].suffixes):
            return FORMATS[name]
    if len(names) == len(FORMATS):
        advice = f"name it with --format, one of {', '.join(FORMATS)}"
    else:
        advice = f"expected {' or '.join(names)}"
    starts = f" (the file begins with {opening.first_line.strip()[:60]!r})"
    raise TraceError(f"the format is not recognised{starts}: {advice}", source.path)


def _opening(first_bytes: bytes) -> Opening:
    lines = first_bytes.decode(errors="replace").split("\n")
    line = next((line for line in lines if line.strip() and not line.lstrip().startswith(("#", ";"))), "")
    try:
        fields = next(csv.reader([line]), [])
    except csv.Error:
        fields = []
    return Opening(first_bytes, line, frozenset(field.strip() for field in fields))


def _unknown(name: str) -> str:
    known = [*FORMATS, *FAMILIES, "auto"]
    return f"format: {name!r} is unknown{did_you_mean(name, known)}; known are {', '.join(known)}"
