"""What PCS published of its testbed: unfairness (figure 6a), prediction errors (4), JCTs (6b), and configurations.

Source: `data/fig4`, `data/fig6` and `data/PCS_configs` of the public release (abdullahfsm/PCS, MIT). 101 AutoML jobs on
16 GPUs, mean of three seeds.
"""

from __future__ import annotations

from typing import NamedTuple


class Unfairness(NamedTuple):
    """By how much JCT exceeds the fair one, %: mean, percentiles and maximum over the jobs."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    largest: float


class Point(NamedTuple):
    """Mean absolute prediction error, %, and mean JCT over that of PCS-JCT."""

    error_mean: float
    jct_over_pcs: float


class Configuration(NamedTuple):
    """One of the points that the study names, with weights to three digits."""

    name: str
    policy: str


UNFAIRNESS = {
    "afs": Unfairness(10.7, 0.0, 35.0, 49.3, 157.6, 212.2),
    "themis": Unfairness(11.2, 7.6, 29.7, 34.4, 41.2, 46.1),
    "PCS-JCT": Unfairness(5.7, 0.0, 17.4, 32.2, 89.8, 97.1),
    "srsf": Unfairness(25.7, 0.0, 57.4, 166.0, 343.0, 418.0),
}

FRONT = {
    "afs": Point(43.66, 1.120),
    "srsf": Point(69.54, 1.521),
    "themis": Point(52.34, 2.111),
    "PCS-JCT": Point(22.91, 1.0),
    "PCS-bal": Point(18.13, 1.088),
    "PCS-pred": Point(11.14, 1.383),
}

CONFIGURATIONS = (
    Configuration("PCS-JCT", "wfq:thresholds=1718+2757,weights=0.941+0.056+0.003,zeta_min=0.01,delta=0.01"),
    Configuration("PCS-bal", "wfq:thresholds=3683,weights=0.922+0.078,zeta_min=0.01,delta=0.01"),
    Configuration("PCS-pred", "wfq:thresholds=4790,weights=0.92+0.08,zeta_min=0.01,delta=0.01"),
)
