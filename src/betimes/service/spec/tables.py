"""Tables of a kind in the settings, or in a file of their own: queues, and groups of users."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from betimes.service.spec.job_limits import JobLimits
from betimes.service.spec.job_spec import MOST_SECONDS, QueueName
from betimes.service.spec.spec_errors import first_fault
from betimes.units import parse_duration

MOST_TABLES = 100


def _span(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


_Time = Annotated[float, BeforeValidator(_span), Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)]


class Named(JobLimits):
    """A table with a name and limits of jobs, whose times are written as in 30m."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, strict=True)
    name: QueueName
    default_time_s: _Time | None = Field(default=None, alias="default_time")
    max_time_s: _Time | None = Field(default=None, alias="max_time")


N = TypeVar("N", bound=Named)


def parse_tables(model: type[N], tables: Any) -> tuple[N, ...]:
    """Tables such as `[[queues]]`, or the name of a TOML file that has them.

    Raises ValueError, naming table and field.
    """
    kind = model.__name__.lower()
    if isinstance(tables, str):
        tables = _tables_of(Path(tables).expanduser(), f"{kind}s")
    if not isinstance(tables, list | tuple) or len(tables) > MOST_TABLES:
        raise ValueError(f"give at most {MOST_TABLES} tables [[{kind}s]], or a file that has them")
    known = tuple(field.alias or name for name, field in model.model_fields.items())
    found: dict[str, N] = {}
    for number, table in enumerate(tables, 1):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        name = table.get("name") if isinstance(table, Mapping) else None  # pyright: ignore
        where = f"{kind} {name[:60]}" if isinstance(name, str) else f"table {number}"
        try:
            one = model.model_validate(table)
        except ValidationError as error:
            raise ValueError(f"{where}: {first_fault(error, known, kind)}") from None
        if one.name in found:
            raise ValueError(f"{where}: stands twice; leave one of them out")
        if one.max_time_s is not None and (one.default_time_s or 0.0) > one.max_time_s:
            raise ValueError(f"{where}: default_time is more than max_time")
        found[one.name] = one
    return tuple(found.values())


def _tables_of(file: Path, key: str) -> Any:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file}: cannot be read as TOML: {error}") from None
    if set(found) != {key}:
        raise ValueError(f"{file}: expected tables [[{key}]], and nothing else")
    return found[key]
