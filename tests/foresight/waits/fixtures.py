"""Jobs that wait on a small cluster, and a model of waits made by hand."""

from __future__ import annotations

import numpy as np

from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.core.nodes.wait_features import FEATURES
from betimes.core.nodes.wait_predictor import Predictor, Split
from betimes.kernels import as_array, blank
from betimes.policies.nodes.wait_model import WaitModel
from betimes.workload import Workload

CLUSTER = Cluster(
    "small",
    (NodeGroup("own", 2, 0.0, 4.0, 16.0),),
    offers=(Offer(type="cloud", cpu=8.0, memory_gib=32.0, usd_per_h=1.0),),
)


def work(jobs: int = 3000, seed: int = 1, gap_s: float = 300.0) -> Workload:
    """Jobs of one to four cores that are a little more than the cluster can do."""
    rng = np.random.default_rng(seed)
    cores = rng.choice([1, 2, 4], jobs, p=(0.5, 0.3, 0.2))
    run_s = rng.exponential(1200.0, jobs) + 1.0
    return Workload.from_columns(
        submit_s=np.cumsum(rng.exponential(gap_s, jobs)),
        work_s=run_s * cores,
        min_units=cores,
        max_units=cores,
        cpu=np.ones(jobs),
        memory_gib=np.ones(jobs),
    )


def stump(feature: str, threshold: float, below_s: float, above_s: float) -> WaitModel:
    """A model of one tree with two leaves."""
    trees = blank(Split, 3)
    columns = as_array(trees)
    columns["feature"][0], columns["threshold"][0] = FEATURES.index(feature), threshold
    columns["left"], columns["right"], columns["value"] = [1, -1, -1], [2, -1, -1], [0.0, below_s, above_s]
    seen = np.array([[0.0] * len(FEATURES), [1e9] * len(FEATURES)])
    return WaitModel(
        "forest",
        Predictor(
            trees=trees, roots=np.zeros(1, dtype=np.int64), weights=np.zeros(1 + len(FEATURES)), seen=seen
        ),
        error_s=1.0,
    )
