"""Record the event logs anew: `python -m tests.service.logs.regenerate [NAME ...]`, after a decision was changed."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from betimes.service.store.event_file import archives, write_archive
from tests.service.logs.recording import POLICIES, record
from tests.service.logs.test_logs import LOGS


def write(name: str) -> Path:
    """A log as an archive of the service has it, and the state that it leads to."""
    cluster = record(POLICIES[name])
    folder = LOGS / name
    for path in archives(folder).values():
        path.unlink()
    (folder / "archive").mkdir(parents=True, exist_ok=True)
    path = folder / "archive" / f"events-1-{len(cluster.log)}.jsonl.gz"
    write_archive(path, cluster.log)
    (folder / "end.json.gz").write_bytes(gzip.compress(cluster.ledger.to_bytes(), mtime=0))
    return path


if __name__ == "__main__":
    for chosen in sys.argv[1:] or POLICIES:
        print(write(chosen).relative_to(LOGS))
