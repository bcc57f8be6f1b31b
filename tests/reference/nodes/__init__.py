"""A slow, obvious object model of the nodes engine, written from the specification alone.

Nothing here imports betimes. Free resources, orders and plans are worked out from scratch whenever they are
needed. Times are ints, floats or Fractions, as given; scores are exact wherever their formula is rational.
Use `run(jobs, nodes, policy)`; jobs stand in order of submission.
"""

from tests.reference.nodes.loop import run
from tests.reference.nodes.model import (
    BEST_EFFORT,
    TRIAL,
    Absence,
    Event,
    Job,
    JobOutcome,
    Node,
    Outcome,
    Policy,
    Reservation,
    Start,
    State,
)

__all__ = [
    "BEST_EFFORT",
    "TRIAL",
    "Absence",
    "Event",
    "Job",
    "JobOutcome",
    "Node",
    "Outcome",
    "Policy",
    "Reservation",
    "Start",
    "State",
    "run",
]
