"""Demands by family as the core knows them: a row of its table for each family, and where each job's begin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from betimes.core.nodes.columns import TaskDemand
from betimes.kernels import Ints, Records, as_array, blank
from betimes.twin.nodes.tasks import Tasks


def demand_rows(tasks: Tasks, kept: NDArray[np.intp]) -> tuple[Records[TaskDemand], Ints]:
    """`State.demands`, and `Need.demands` of each job that is kept (jobs,): jobs of equal demands share their rows."""
    first_of = np.zeros(len(kept), np.int64)
    different = np.flatnonzero(tasks.differs[kept])
    if tasks.by_family is None or not len(different):
        return blank(TaskDemand, 0), first_of
    families = tasks.by_family.shape[1]
    each = tasks.by_family[kept[different]].reshape(len(different), -1)
    distinct, code = np.unique(each, axis=0, return_inverse=True)
    first_of[different] = families * (1 + code.reshape(-1))
    table = blank(TaskDemand, families * (1 + len(distinct)))
    amounts = distinct.reshape(-1, 3)
    for at, name in enumerate(("gpu", "cpu", "memory")):
        as_array(table)[name][families:] = amounts[:, at]
    return table, first_of
