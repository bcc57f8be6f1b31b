"""Three points of a front by name, as the paper picks them (PCS, section 5.1).

PCS-JCT is the fastest, PCS-pred keeps its promises best, PCS-balanced lies between. For other objectives than the
paper's: PCS-JCT is best in the first objective of JCT, else in the first that is not of prediction error; PCS-pred in
the first of prediction error, else in the last that PCS-JCT was not chosen by. PCS-balanced is nearest to the best of
every objective, each scaled to what it spans on the front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from betimes.foresight.objectives import Objective
from betimes.kernels import Floats

FASTEST, BALANCED, PREDICTABLE = "PCS-JCT", "PCS-balanced", "PCS-pred"
NAMES = (PREDICTABLE, BALANCED, FASTEST)


def named_points(costs: Floats, objectives: Sequence[Objective]) -> dict[str, int]:
    """The row of each of `NAMES` among the (points, objectives) costs of a front; one row may have several."""
    by = leading(objectives)
    spans = costs.max(axis=0) - costs.min(axis=0)
    scaled = (costs - costs.min(axis=0)) / np.where(spans > 0, spans, 1.0)
    return {
        PREDICTABLE: _least(scaled, by[PREDICTABLE]),
        BALANCED: int(np.argmin((scaled**2).sum(axis=1))),
        FASTEST: _least(scaled, by[FASTEST]),
    }


def leading(objectives: Sequence[Objective]) -> dict[str, int]:
    """The objective by which PCS-JCT, and by which PCS-pred, is chosen."""
    numbers = range(len(objectives))
    fast = next((n for n in numbers if objectives[n].metric == "jct"), None)
    if fast is None:
        fast = next((n for n in numbers if not objectives[n].predicts), 0)
    pred = next((n for n in numbers if objectives[n].predicts), None)
    if pred is None:
        pred = next((n for n in reversed(numbers) if n != fast), fast)
    return {FASTEST: fast, PREDICTABLE: pred}


def _least(scaled: Floats, by: int) -> int:
    """The row with the least in one column; of several, the one nearest to the best of all."""
    best = np.flatnonzero(scaled[:, by] == scaled[:, by].min())
    return int(best[np.argmin((scaled[best] ** 2).sum(axis=1))])
