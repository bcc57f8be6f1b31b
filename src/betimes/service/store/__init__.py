"""Storage: the event log, which is the source of truth, and tables derived from it.

`Store.open(url, folder)` is the one on disk (SQLite, PostgreSQL), `Store.in_memory(folder)` the one for tests. The
names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.service.store.batch import Answer, Batch, Row, Snapshot
    from betimes.service.store.event_file import read_archive
    from betimes.service.store.store import Store, default_url

__all__ = [
    "Answer",
    "Batch",
    "Row",
    "Snapshot",
    "Store",
    "default_url",
    "read_archive",
]

_HERE = "betimes.service.store"
__getattr__, __dir__ = lazy_names(
    _HERE,
    {
        "Answer": f"{_HERE}.batch",
        "Batch": f"{_HERE}.batch",
        "Row": f"{_HERE}.batch",
        "Snapshot": f"{_HERE}.batch",
        "Store": f"{_HERE}.store",
        "default_url": f"{_HERE}.store",
        "read_archive": f"{_HERE}.event_file",
    },
)
