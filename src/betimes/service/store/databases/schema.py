"""The tables. A change of them is another VERSION and an upgrade of the last one (`upgrades`).

Instants are seconds since 1970. Documents are JSON in text, kept to the letter (`json` on PostgreSQL, not `jsonb`, so
that a number read back is the number written).
"""

from __future__ import annotations

import json
import math
import operator
from typing import Any

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.types import UserDefinedType

from betimes.errors import StoreDamaged

VERSION = "0011"  # of the tables
LIVE = ("held", "blocked", "queued", "running", "stopping")
"""The states of a job that is not over; `views.Status`, which has them too, costs too much to import here."""
OVER = ("finished", "failed", "cancelled")

_LARGEST = 2**63 - 1
_from_json = json.JSONDecoder().decode
_to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Checked(TypeDecorator[Any]):
    """A column's type that keeps the result of `check`.

    Databases differ in values that they refuse or change silently: here they keep the same.
    """

    impl = Text
    cache_ok = True

    @staticmethod
    def check(value: Any) -> Any:
        """The value as kept; raises TypeError, ValueError, OverflowError or RecursionError if it cannot be."""
        raise NotImplementedError

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> Any:
        """The driver's value."""
        return None if value is None else self.check(value)


class Whole(Checked):
    """A whole number of 64 bits."""

    impl = BigInteger().with_variant(Integer(), "sqlite")
    cache_ok = True

    @staticmethod
    def check(value: Any) -> int:
        """Also NumPy's integers, which SQLite would keep as bytes."""
        number = operator.index(value)
        if not -_LARGEST <= number <= _LARGEST:
            raise ValueError("is beyond 64 bits")
        return number


class Number(Checked):
    """A finite float."""

    impl = Double().with_variant(REAL(), "sqlite")
    cache_ok = True

    @staticmethod
    def check(value: Any) -> float:
        """Without minus zero, which SQLite does not keep."""
        number = float(value) + 0.0
        if not math.isfinite(number):
            raise ValueError("is not finite; leave it out or give null")
        return number


class Words(Checked):
    """A text that both databases can keep."""

    cache_ok = True

    @staticmethod
    def check(value: Any) -> str:
        """Of an enumeration, its value."""
        text = str.__str__(value)
        if "\0" in text:
            raise ValueError("holds a NUL character")
        if not text.isascii():
            text.encode()  # half a surrogate pair is no text
        return text


class _JSON(UserDefinedType[Any]):
    """PostgreSQL's, to and from text: SQLAlchemy's own would encode and parse by itself."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Its name."""
        return "JSON"


class Bytes(Checked):
    """Bytes."""

    impl = LargeBinary
    cache_ok = True

    @staticmethod
    def check(value: Any) -> bytes:
        """Likewise, of any kind of buffer."""
        return bytes(value)


class Encoded(str):
    """A document that is text already."""


class Document(Checked):
    """A JSON value."""

    impl = Text().with_variant(_JSON(), "postgresql")
    cache_ok = True

    @staticmethod
    def check(value: Any) -> str:
        """As text."""
        return value if isinstance(value, Encoded) else _to_json(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Any:
        """The document again; raises StoreDamaged."""
        return None if value is None else from_json(value)


def from_json(text: str) -> Any:
    """A document as it was kept; raises StoreDamaged."""
    try:
        return _from_json(text)
    except ValueError as error:
        raise StoreDamaged(
            f"the database is damaged: an entry is not JSON ({error}); restore it from a backup"
        ) from None


WHOLE, NUMBER, TEXT, DOCUMENT, BYTES = Whole(), Number(), Words(), Document(), Bytes()

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "fk": "fk_%(table_name)s_%(column_0_name)s"}
)


def _table(name: str, *parts: Any, **options: Any) -> Table:
    return Table(name, metadata, *parts, sqlite_strict=True, **options)


def _key(name: str, kind: Any, *parts: Any) -> Column[Any]:
    return Column(name, kind, *parts, primary_key=True, autoincrement=False)


def _must(name: str, kind: Any, default: str | None = None) -> Column[Any]:
    return Column(name, kind, nullable=False, server_default=default)


def _may(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, nullable=True)


events = _table(
    "events",
    _key("event_id", WHOLE),
    _must("at_s", NUMBER),
    _must("kind", TEXT),
    _must("cause", TEXT),
    _may("job", WHOLE),  # no foreign key: the log outlives the job's row
    _may("node", TEXT),
    _must("data", DOCUMENT),
    _may("checksum", TEXT),  # of this row and the one before; null: of an event from before version 0009
)

jobs = _table(
    "jobs",
    _key("job_id", WHOLE),
    _may("array_id", WHOLE),
    _may("array_index", WHOLE),
    _must("name", TEXT),
    _must("user", TEXT),
    _must("status", TEXT),
    _must("qos", TEXT),
    _must("units", WHOLE, "0"),
    _must("min_units", WHOLE),
    _must("max_units", WHOLE),
    _must("submitted_at", NUMBER),
    _may("started_at", NUMBER),
    _may("finished_at", NUMBER),
    _must("attempt", WHOLE, "0"),
    _must("preemptions", WHOLE, "0"),
    _must("resizes", WHOLE, "0"),
    _may("progress_frac", NUMBER),
    _may("reason", DOCUMENT),
    _may("promised_finish_at", NUMBER),
    _may("promised_low_at", NUMBER),
    _may("promised_median_at", NUMBER),
    _may("promised_high_at", NUMBER),
    _may("promised_level", NUMBER),
    _must("labels", DOCUMENT, "{}"),
    _must("spec", DOCUMENT),
    _may("ran_s", NUMBER),  # its last run, without standing still
    _may("slurm_start_at", NUMBER),  # the start that Slurm planned first, where that is watched
)

job_labels = _table(
    "job_labels",  # the column `labels` again, to find jobs by; the store keeps the two together
    Column("key", TEXT, nullable=False),
    Column("value", TEXT, nullable=False),
    Column("job_id", WHOLE, nullable=False),
    PrimaryKeyConstraint("key", "value", "job_id"),
    ForeignKeyConstraint(["job_id"], ["jobs.job_id"], ondelete="CASCADE"),
    sqlite_with_rowid=False,
)

runs = _table(
    "runs",
    _key("job_id", WHOLE, ForeignKey("jobs.job_id", ondelete="CASCADE")),
    _key("number", WHOLE),
    _must("units", WHOLE),
    _must("places", DOCUMENT),
    _must("started_at", NUMBER),
    _may("ended_at", NUMBER),
    _may("outcome", TEXT),
    _may("exit_code", WHOLE),
    _may("signal", WHOLE),
    _may("max_rss_gib", NUMBER),
    _may("cpu_s", NUMBER),
    _may("message", TEXT),
    _may("memory_limit_gib", NUMBER),
    _may("memory_limited_by", TEXT),
    _may("log_lost_bytes", WHOLE),
    _may("stood_s", NUMBER),  # for which it stood still, until it was last suspended; null: 0
    _may("suspended_at", NUMBER),  # since when it stands still
    _may("owned_units", WHOLE),  # of its units, those that are not on rented machines; null: all
    sqlite_with_rowid=False,
)

quotes = _table(
    "quotes",
    _key("quote_id", WHOLE),
    Column("job_id", WHOLE, ForeignKey("jobs.job_id", ondelete="CASCADE"), nullable=True),
    _must("made_at", NUMBER),
    _must("policy", TEXT),
    _may("start_at", NUMBER),
    _may("finish_at", NUMBER),
    _may("finish_low_at", NUMBER),
    _may("finish_median_at", NUMBER),
    _may("finish_high_at", NUMBER),
    _may("start_low_at", NUMBER),
    _may("start_median_at", NUMBER),
    _may("start_high_at", NUMBER),
    _may("level", NUMBER),
    _may("cost_usd", NUMBER),
    _must("run_s", NUMBER),
    _must("basis", TEXT),
    _may("reason", DOCUMENT),
)

nodes = _table(
    "nodes",
    _key("name", TEXT),
    _must("kind", TEXT),
    _may("type", TEXT),
    _must("status", TEXT),
    _must("cpu", NUMBER),
    _must("memory_gib", NUMBER),
    _must("gpu", NUMBER),
    _may("usd_per_h", NUMBER),
    _may("last_seen_at", NUMBER),
)

charges = _table(
    "charges",  # for rented machines: `scheduling.charges`
    _key("event_id", WHOLE),  # with which it became known
    _key("number", WHOLE),
    _must("node", TEXT),
    # Null: no job held that part. No foreign key: a bill may come after the job's row has gone.
    _may("job_id", WHOLE),
    _may("user", TEXT),
    _must("since_at", NUMBER),
    _must("until_at", NUMBER),
    _must("usd", NUMBER),
    sqlite_with_rowid=False,
)

answers = _table(
    "answers",
    _key("user", TEXT),
    _key("key", TEXT),
    _may("at_s", NUMBER),  # of the last event beside it; null, and kept for good, where there was none
    _must("body", DOCUMENT),
)

tokens = _table(
    "tokens",
    _key("hash", TEXT),
    _must("user", TEXT),
    _must("role", TEXT),  # empty: that of the user
    _may("name", TEXT),  # null: the operator's, in the state directory
    _may("made_at", NUMBER),
    _may("expires_at", NUMBER),
    _may("used_at", NUMBER),
    _may("revoked_at", NUMBER),
)

snapshots = _table(
    "snapshots",
    _key("event_id", WHOLE),
    _must("at_s", NUMBER),
    _must("version", TEXT),
    _must("sha256", TEXT),
    _must("body", BYTES),
)

meta = _table("meta", _key("name", TEXT), _must("value", TEXT))

version = _table("betimes_version", _key("version_num", TEXT))


def _index(name: str, *columns: Column[Any], only: Any = None) -> Index:
    return Index(name, *columns, sqlite_where=only, postgresql_where=only)


# Lists are read newest first, some statuses at a time: one short range of an index for each status.
_index("ix_jobs_status", jobs.c.status, jobs.c.job_id)
_index("ix_jobs_user", jobs.c.user, jobs.c.status, jobs.c.job_id)
_index("ix_jobs_name", jobs.c.name, jobs.c.status, jobs.c.job_id)
_index("ix_jobs_array", jobs.c.array_id, jobs.c.status, jobs.c.job_id, only=jobs.c.array_id.is_not(None))
_index("ix_jobs_finished", jobs.c.finished_at, jobs.c.job_id, only=jobs.c.finished_at.is_not(None))
_index("ix_job_labels_job", job_labels.c.job_id)
_index("ix_quotes_job", quotes.c.job_id)
_index("ix_events_job", events.c.job, events.c.event_id, only=events.c.job.is_not(None))
_index("ix_charges_until", charges.c.until_at)
_index("ix_answers_at", answers.c.at_s)
