"""Kinds of events that had another name: in databases before revision 0004, and in archives written before that."""

from __future__ import annotations

RENAMED = {
    "told": "stopping",
    "waits": "requeued",
    "goes-on": "work-lost",
    "width": "parallelism-changed",
    "node-is": "node-status",
    "believed": "estimate-changed",
    "displaces": "preempts",
    "cancel-asked": "cancel-requested",
}
