"""A slow, obvious object model of the pool engine, written from the specification alone.

Nothing here imports betimes. Every quantity is recomputed from scratch at each event; predictions deep-copy
the whole cluster. Use `run` for a simulation, `allocate_once` for one decision on jobs just arrived.
"""

from tests.reference.model import Job
from tests.reference.oracle import Decision, ReferenceResult, allocate_once, run

__all__ = ["Decision", "Job", "ReferenceResult", "allocate_once", "run"]
