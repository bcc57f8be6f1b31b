"""What is kept: the event log, which is the source of truth, and tables derived from it.

`Store.open(url, folder)` is the one on disk (SQLite, PostgreSQL), `MemoryStore` the one for tests; `Storage` is
what they have in common. The names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.service.store.batch import Answer, Batch, Row, Snapshot
    from betimes.service.store.event_file import read_archive
    from betimes.service.store.memory import MemoryStore
    from betimes.service.store.storage import Storage
    from betimes.service.store.store import Store, default_url

__all__ = [
    "Answer",
    "Batch",
    "MemoryStore",
    "Row",
    "Snapshot",
    "Storage",
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
        "MemoryStore": f"{_HERE}.memory",
        "Row": f"{_HERE}.batch",
        "Snapshot": f"{_HERE}.batch",
        "Storage": f"{_HERE}.storage",
        "Store": f"{_HERE}.store",
        "default_url": f"{_HERE}.store",
        "read_archive": f"{_HERE}.event_file",
    },
)
