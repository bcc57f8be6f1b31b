"""Shell completion from the live service; empty if none answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

STATUSES = ("held", "blocked", "queued", "running", "stopping", "finished", "failed", "cancelled")
"""As in `service.views`, which is too slow to load for completion."""

ACTIVE = STATUSES[:5]
POLICY_NAMES = (
    *("fifo", "srsf", "srtf", "las", "themis", "afs", "max-min", "wfq"),
    *("skip-over", "easy", "conservative", "slurm"),
    *("sjf", "ljf", "widest", "slowdown", "wfp3", "unicef", "wfq-order"),
    *("fitgpp", "youngest", "lowest-priority"),
    *("njw", "ajw", "ajw-t", "ljw", "sww", "compound", "oda", "odb", "ode", "odm", "odx"),
    *("no-packing", "consolidation", "eva", "portfolio"),
)
"""For completion in a shell, as loading the policies is too slow."""

_MOST = 200


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """The jobs whose number begins so, newest first, with name and status as help; also behind the last comma."""
    before, comma, last = incomplete.rpartition(",")
    found: list[tuple[str, str]] = []
    with _whatever_happens():
        from betimes.cli.live.connection import connect

        with connect() as service:
            for job in service.jobs(limit=_MOST).items:
                if str(job.job_id).startswith(last):
                    found.append((f"{before}{comma}{job.job_id}", f"{job.name}, {job.status}"))
    return found


def complete_node(incomplete: str) -> list[tuple[str, str]]:
    """The nodes whose name begins so, with their status as help."""
    found: list[tuple[str, str]] = []
    with _whatever_happens():
        from betimes.cli.live.connection import connect

        with connect() as service:
            found = [(node.name, node.status) for node in service.nodes() if node.name.startswith(incomplete)]
    return found


def complete_status(incomplete: str) -> list[str]:
    """The statuses that begin so, also behind the last comma."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + status for status in STATUSES if status.startswith(last)]


@contextlib.contextmanager
def _whatever_happens() -> Iterator[None]:
    """Suppress all errors while a shell waits for a completion: the verb itself will report them."""
    with contextlib.suppress(Exception):
        yield


def complete_policy(incomplete: str) -> list[str]:
    """The policies whose name begins so, also behind the last comma."""
    from betimes import plugins

    before, comma, last = incomplete.rpartition(",")
    names = dict.fromkeys([*POLICY_NAMES, *plugins.added(plugins.POLICIES)])
    return [before + comma + name for name in names if name.startswith(last)]
