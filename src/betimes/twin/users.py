"""Users as rows of a table, whatever the trace calls them."""

from __future__ import annotations

import numpy as np

from betimes.kernels import Ints
from betimes.workload import Workload


def user_rows(workload: Workload) -> Ints:
    """Users as 0, 1, ... whatever numbers the trace gives them; -1 stays unknown."""
    known, codes = np.unique(workload.user, return_inverse=True)
    offset = 1 if len(known) and known[0] < 0 else 0
    return codes.astype(np.int64) - offset
