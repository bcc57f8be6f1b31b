"""A trace format: how a reader describes itself, and how the columns that it took become a workload."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from betimes.errors import InputError, TraceError
from betimes.workload.columns import AnyColumn, identifiers, users
from betimes.workload.readers.rows import Rows, Tally, floats, whole_numbers
from betimes.workload.readers.source import Source
from betimes.workload.validation import repeated
from betimes.workload.workload import Notes, Workload

REQUEUED_S = 300.0  # after the end of an attempt: what has its number and is submitted later is another job


@dataclass(frozen=True, slots=True)
class FieldRule:
    """The rules by which fields of the file become columns (units, conditions)."""

    source: str
    column: str
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """The first lines of a file, for recognising its format: `fields` are those of its first line that is no
    comment.
    """

    first_bytes: bytes
    first_line: str
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One trace format: `summary` is one line, `details` the rules a user needs, `rules` the mapping of
    fields.
    """

    name: str
    summary: str
    details: str
    rules: tuple[FieldRule, ...]
    recognise: Callable[[Opening], bool]
    read: Callable[[Source, Tally], Workload]
    suffixes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.summary


class Assembly:
    """Collects the good rows of each block; `workload` joins them, one column at a time to spare memory."""

    def __init__(self) -> None:
        self._parts: dict[str, list[AnyColumn]] = {}
        self._extra: list[str] = []

    def add(
        self, rows: Rows, columns: Mapping[str, AnyColumn], extra: Mapping[str, AnyColumn] | None = None
    ) -> None:
        """Keep the good rows of these columns (full length; `job_id` and `user` text or numbers)."""
        extra = extra or {}
        self._extra = list(extra)
        for name, values in (("line", rows.lines), *columns.items(), *extra.items()):
            kept = values[rows.good]
            if name == "job_id" and kept.dtype.kind == "U":
                kept = identifiers(kept.tolist())
            self._parts.setdefault(name, []).append(kept)

    def workload(
        self,
        source: Source,
        tally: Tally,
        trace_format: str,
        *,
        header: Mapping[str, str] | None = None,
        name: str = "",
        guess: Collection[str] = (),
        dated: bool = False,
        attempts_by: Sequence[str] | None = None,
        **whole: Any,
    ) -> Workload:
        """Join the blocks; `whole` are further arguments of `Workload.from_columns`.

        `guess` names further text columns to turn into numbers where every cell is one. `dated` submissions
        are Unix seconds, and become seconds since the first of them, which the header keeps as UnixStartTime.
        `attempts_by`: rows of one id are attempts of one job where they agree in these columns, too, and each was
        submitted at most `REQUEUED_S` after the one before was over (`ended_s`; NaN: not known); the last is kept.
        Where several jobs have an id, these columns become part of it, as in `north/101`, then their order, as in
        `101/2`.

        Raises TraceError where an id is used twice (unless such rows are skipped) and where no job is left.
        """
        made = {key: self._joined(key) for key in list(self._parts)}
        lines = made.pop("line", np.empty(0, np.int64))
        if attempts_by is not None:
            made = _last_attempts(made, attempts_by, tally)
        made = _without_repeats(made, lines, tally)
        if not len(made.get("job_id", ())):
            left_out = tally.reasons()
            why = f"no job is left to run ({left_out})" if left_out else "there is no job in the file"
            raise TraceError(f"{why}: expected at least one", source.path)
        header = dict(header or {})
        if dated:
            start_s = float(made["submit_s"].min())
            made["submit_s"] = made["submit_s"] - start_s
            header["UnixStartTime"] = f"{start_s:.15g}"
        if len(made["submit_s"]) > 1 and bool((np.diff(made["submit_s"]) < 0).any()):
            tally.warnings.append("the rows are not in order of submission; sorted")
        extra = {key: made.pop(key) for key in self._extra}
        extra |= {key: _numeric(extra[key]) for key in guess}
        if made.get("user", lines).dtype.kind == "U":
            made["user"], whole["user_names"] = users(made["user"].tolist())
        notes = Notes(trace_format, dict(tally.skipped), tuple(tally.warnings), header)
        try:
            return Workload.from_columns(name=name or source.stem, extra=extra, notes=notes, **made, **whole)
        except TraceError:
            raise
        except InputError as error:
            raise TraceError(str(error), source.path) from error

    def _joined(self, name: str) -> AnyColumn:
        parts = self._parts.pop(name)
        parts = [part for part in parts if len(part)] or parts[:1]
        if len({part.dtype.kind for part in parts}) > 1:
            # Ids that looked like whole numbers in one block only; their text form is the canonical one.
            parts = [part.astype(np.str_) for part in parts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _last_attempts(made: dict[str, AnyColumn], told_by: Sequence[str], tally: Tally) -> dict[str, AnyColumn]:
    if not len(ids := made.get("job_id", np.empty(0))):
        return made
    ended_s, submit_s = made.pop("ended_s"), made["submit_s"]
    jobs = np.zeros(len(ids), np.int64)
    for name in ("job_id", *(name for name in told_by if name in made)):
        distinct, codes = np.unique(made[name], return_inverse=True)
        _, jobs = np.unique(jobs * len(distinct) + codes, return_inverse=True)
    order = np.lexsort((submit_s, jobs))  # stable
    is_other = np.diff(jobs[order]) != 0
    is_other |= submit_s[order][1:] - ended_s[order][:-1] > REQUEUED_S
    keep = np.sort(order[np.append(is_other, True)])
    tally.left_out("earlier attempt of a job", len(ids) - len(keep))
    made = {name: values[keep] for name, values in made.items()}
    for name in told_by:
        if name in made and repeated(made["job_id"]) is not None:
            texts = np.char.add(made[name].astype(np.str_), "/")
            longer = np.char.add(texts, made["job_id"].astype(np.str_))
            if len(np.unique(longer)) > len(np.unique(made["job_id"])):
                made["job_id"] = longer
    if repeated(made["job_id"]) is not None:
        _, codes = np.unique(made["job_id"], return_inverse=True)
        order = np.lexsort((made["submit_s"], codes))
        firsts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order)) - np.repeat(firsts, np.diff(firsts, append=len(order))) + 1
        endings = np.where(number > 1, np.char.add("/", number.astype(np.str_)), "")
        made["job_id"] = np.char.add(made["job_id"].astype(np.str_), endings)
    return made


def _without_repeats(made: dict[str, AnyColumn], lines: AnyColumn, tally: Tally) -> dict[str, AnyColumn]:
    ids = made.get("job_id")
    if ids is None or (second := repeated(ids)) is None:
        return made
    if tally.on_bad_rows == "fail":
        first = int(lines[int(np.argmax(ids == ids[second]))])
        tally.malformed(
            int(lines[second]),
            "job_id",
            f"expected an id not used yet (line {first} has it)",
            ids[second].item(),
        )
    _, firsts = np.unique(ids, return_index=True)
    keep = np.sort(firsts)
    tally.left_out("job_id: expected an id not used yet", len(ids) - len(keep))
    return {name: values[keep] for name, values in made.items()}


def _numeric(texts: AnyColumn) -> AnyColumn:
    """A text column as whole numbers or numbers (empty: NaN) where every cell is one, else as it is."""
    import pyarrow as pa

    distinct, codes = np.unique(texts, return_inverse=True)
    values, wrong = whole_numbers(pa.array(distinct, pa.string()))
    if not wrong.any():
        return values[codes]
    filled = distinct != ""
    numbers = floats(pa.array(np.where(filled, distinct, "nan"), pa.string()))
    return numbers[codes] if filled.any() and bool(np.isfinite(numbers[filled]).all()) else texts
