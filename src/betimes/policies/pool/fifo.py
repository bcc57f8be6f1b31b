"""First in, first out (PCS, section 2.1; the published simulator's `FIFO`)."""

from __future__ import annotations

from betimes.policies.hooks import IN_ORDER, Policy

fifo = Policy(
    name="fifo",
    summary="In order of submission, each job as wide as it can be; those behind fill gaps until it can be wider.",
    question="Which order is perfectly predictable?",
    paper="PCS (OSDI 2024), section 2.1",
    reads_progress=False,
    playout_whole=IN_ORDER,
    playout_fractional=IN_ORDER,
)
