"""Weighted fair queueing over size classes (PCS, OSDI 2024) as a policy for rigid jobs."""

from __future__ import annotations

from betimes.policies.nodes.hooks import BACKFILL, PLACEMENT, WINDOW, NodesPolicy
from betimes.policies.nodes.size_classes import SIZE_CLASSES, by_class_shares

wfq_order = NodesPolicy(
    name="wfq-order",
    summary="Classes of jobs by size share the nodes by weight: the one furthest below its share starts a job next.",
    question="How much of the cluster should short jobs have, and how much long ones?",
    paper="PCS (OSDI 2024), section 4, for jobs that are not resized",
    parameters=(*SIZE_CLASSES, BACKFILL, WINDOW, PLACEMENT),
    rank=by_class_shares,
    dynamic=True,
)
