"""Classes of jobs by size that share starts by weight: the order `wfq-order`, with its parameters.

Source: PCS (OSDI 2024), section 4. On a pool (`policies/pool/wfq.py`) classes share the units, and jobs are resized to
keep the shares. On nodes a job keeps its demand to its end, so classes share starts: the class furthest below its share
starts a job next.
"""

from __future__ import annotations

import math

import numpy as np

from betimes.core.nodes.columns import NodesView
from betimes.kernels import Floats, Ints, full_kernel, kernel
from betimes.policies.hooks import Parameter

CLASSES, FIRST, FACTOR, DECAY = range(4)

SIZE_CLASSES = (
    Parameter("classes", "how many classes by size wfq-order has", 3.0, low=1.0, high=100.0),
    Parameter(
        "first", "largest size in its first class, units x seconds", 3600.0, low=1e-3, is_duration=True
    ),
    Parameter(
        "factor", "largest size in a class over that in the class before, under wfq-order", 10.0, low=1.0
    ),
    Parameter("W", "class i of wfq-order weighs e^(-iW)", 0.5, low=-10.0, high=10.0),
)
"""They are a policy's first parameters wherever it has them (`NodesPolicy.params`)."""


@kernel
def size_class(view: NodesView, slot: int) -> int:
    """Class 0 has the jobs of sizes up to `first`; the bound of each further class is `factor` times as large."""
    job, number, most = view.jobs[slot], 0, view.params[FIRST]
    while number + 1 < view.params[CLASSES] and job.size_s * job.max_units > most:
        number += 1
        most *= view.params[FACTOR]
    return number


@full_kernel
def by_class_shares(view: NodesView, now: float, chosen: Ints, key: Floats) -> None:
    """By the units of the job's class, with this job and the earlier ones of the class, over the class's weight.

    Machines rented for one job alone are no part of what classes share.
    """
    held = np.zeros(int(view.params[CLASSES]))
    for at in range(view.pool[0].holders):
        slot = view.holders[at]
        if view.needs[slot].rented == 0:
            held[size_class(view, slot)] += view.jobs[slot].max_units
    seq = np.empty(len(chosen), dtype=np.int64)
    for k in range(len(chosen)):
        seq[k] = view.jobs[chosen[k]].seq
    order = np.argsort(seq)
    for at in range(len(order)):
        k = int(order[at])
        number = size_class(view, chosen[k])
        held[number] += view.jobs[chosen[k]].max_units
        key[k] = held[number] * math.exp(number * view.params[DECAY])
