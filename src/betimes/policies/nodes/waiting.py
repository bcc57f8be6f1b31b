"""Waiting policies: jobs that wait for an owned machine, and jobs that run on a rented one instead.

Source: Ambati et al., Waiting Game (SC 2020) and its sequel (SoCC 2021); spec/waiting.md A.3 to A.6. A job that can
start at once on an owned machine does so under every policy, unless `short_uses_owned` is false; the rules below are
for the others.
"""

from __future__ import annotations

import math
from dataclasses import replace

from betimes.core.nodes.columns import NodesView
from betimes.kernels import Floats, Ints, kernel
from betimes.policies.hooks import Parameter
from betimes.policies.nodes.fitgpp import GRACE_WEIGHT, score_victims
from betimes.policies.nodes.hooks import MOST_PREEMPTIONS, ORDER, PLACEMENT, TRIALS, NodesPolicy
from betimes.policies.nodes.orders import ORDERS
from betimes.policies.nodes.size_classes import SIZE_CLASSES

SHORT = Parameter("t", "a job that runs no longer is short", 900.0, low=0.0, high=1e9, is_duration=True)
PATIENCE = Parameter("b", "a job waits no longer", 86_400.0, low=0.0, high=1e9, is_duration=True)
LENGTHS = Parameter(
    "lengths",
    "how it is known whether a job is short: from its true run time, from its estimate, or by running it on a rented "
    "machine for t",
    "oracle",
    choices=("oracle", "estimate", "speculate"),
)
WAITS = Parameter(
    "waits",
    "how it is known that a job would wait longer than b: for sure, from a model, by playing forward, or not at all",
    "oracle",
    choices=("oracle", "none", "learned", "simulated"),
)
MODEL = Parameter(
    "model", "for waits=learned: a file that betimes policy learn-waits has written", None, is_text=True
)
USES_OWNED = Parameter(
    "short_uses_owned",
    "whether short jobs may start on owned machines that are idle",
    "true",
    choices=("true", "false"),
)
LENGTH = Parameter(
    "length",
    "the length of a job: its run time (as in the paper's simulator), or that times its units (as in its text): with "
    "lengths=speculate a job then runs for t over its units",
    "run_time",
    choices=("run_time", "core_time"),
)
REQUEUE = Parameter(
    "requeue",
    "where a job waits that has run on a rented machine in vain: at the place of its arrival, or at the end",
    "arrival",
    choices=("arrival", "tail"),
)
SPOT = Parameter(
    "spot",
    "whether machines on demand can be rented as spot machines, too, which are cheaper and may be taken away",
    "false",
    choices=("true", "false"),
)
BACKFILL = Parameter(
    "backfill",
    "who may start on owned machines while one before it does not fit",
    "skip-over",
    choices=("strict", "skip-over", "easy"),
)

ANY_ORDER = replace(ORDER, choices=tuple(ORDERS))
QUEUE = (ANY_ORDER, *SIZE_CLASSES, BACKFILL, replace(PLACEMENT, default="best-cores"))
OWN = len(SIZE_CLASSES)  # the number of the first parameter after these, `NodesPolicy.params`
ORACLE, ESTIMATE, SPECULATE = 0, 1, 2


@kernel
def never(view: NodesView, now: float, slot: int) -> float:
    """Wait: not at all."""
    return now


@kernel
def always(view: NodesView, now: float, slot: int) -> float:
    """Wait: without limit."""
    return math.inf


@kernel
def at_most(view: NodesView, now: float, slot: int) -> float:
    """Wait: no longer than b, the first parameter of its own."""
    return now + view.params[OWN]


@kernel
def long_ones(view: NodesView, now: float, slot: int) -> float:
    """Wait: long jobs, without limit. Parameters: t, lengths, short_uses_owned, length."""
    return _short_or(view, now, slot, math.inf)


@kernel
def long_ones_at_most(view: NodesView, now: float, slot: int) -> float:
    """Wait: long jobs, no longer than b. Parameters: t, lengths, short_uses_owned, length, b, ..., trials.

    Trial jobs that find room under the policy rent rather than wait.
    """
    if view.params[OWN + 9] == 1.0 and view.needs[slot].trial == 1:
        return now  # who makes room for it is asked first
    return _short_or(view, now, slot, now + view.params[OWN + 4])


@kernel
def one_for_a_trial(view: NodesView, now: float, slot: int, draw: int, chosen: Ints, score: Floats) -> None:
    """Evict: as FitGpp does with the paper's weight. Parameters: t, ..., spot, trials, P."""
    score_victims(view, slot, draw, chosen, score, GRACE_WEIGHT, view.params[OWN + 10], True)


@kernel
def _short_or(view: NodesView, now: float, slot: int, until_s: float) -> float:
    """`until_s` for a long job; now for a short or untried one, or minus infinity if it must not use owned machines."""
    t, lengths = view.params[OWN], view.params[OWN + 1]
    apart, core_time = view.params[OWN + 2], view.params[OWN + 3]
    if view.rentings[slot].speculated == 1:
        return until_s
    if lengths != SPECULATE:
        # Of a job that has been preempted, what is left of it.
        progress = view.progress[slot]
        length_s = progress.work_left if lengths == ORACLE else progress.believed_left
        if core_time == 1.0:
            length_s *= view.jobs[slot].max_units
        if length_s > t:
            return until_s
    return -math.inf if apart == 1.0 else now


njw = NodesPolicy(
    name="njw",
    summary="No job waits: what does not start at once on an owned machine runs on a rented one.",
    question="What does it cost never to wait?",
    paper="Waiting Game (SC 2020), NJW",
    parameters=(SPOT, *QUEUE),
    wait=never,
)

ajw = NodesPolicy(
    name="ajw",
    summary="All jobs wait for the owned machines.",
    question="How long are waits if nothing is ever rented?",
    paper="Waiting Game (SC 2020), AJW",
    parameters=QUEUE,
    wait=always,
)

ajw_t = NodesPolicy(
    name="ajw-t",
    summary="All jobs wait, and what has waited for b runs on a rented machine.",
    question="What does a bound on waits cost?",
    paper="Waiting Game (SC 2020), AJW-T",
    parameters=(PATIENCE, REQUEUE, SPOT, *QUEUE),
    wait=at_most,
)

ljw = NodesPolicy(
    name="ljw",
    summary="Long jobs wait; short ones run on rented machines rather than wait.",
    question="Which few jobs need not wait at little cost?",
    paper="Waiting Game (SC 2020), LJW",
    parameters=(SHORT, LENGTHS, USES_OWNED, LENGTH, REQUEUE, SPOT, *QUEUE),
    wait=long_ones,
)

sww = NodesPolicy(
    name="sww",
    summary="A job waits unless that would take longer than b: then it runs on a rented machine at once.",
    question="Which jobs would wait in vain?",
    paper="Waiting Game (SC 2020), SWW",
    parameters=(PATIENCE, WAITS, MODEL, REQUEUE, SPOT, *QUEUE),
    wait=at_most,
)

compound = NodesPolicy(
    name="compound",
    summary="Short jobs never wait; long ones do, unless that would take longer than b.",
    question="How does one own few machines and wait little?",
    paper="Waiting Game (SC 2020), compound; SoCC 2021",
    parameters=(
        SHORT,
        LENGTHS,
        USES_OWNED,
        LENGTH,
        PATIENCE,
        WAITS,
        MODEL,
        REQUEUE,
        SPOT,
        TRIALS,
        MOST_PREEMPTIONS,
        *QUEUE,
    ),
    wait=long_ones_at_most,
    room=one_for_a_trial,
)

WAITING = (njw, ajw, ajw_t, ljw, sww, compound)
