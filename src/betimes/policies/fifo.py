"""First in, first out (PCS, section 2.1; the published simulator's `FIFO`)."""

from __future__ import annotations

from betimes.policies.hooks import IN_ORDER, Policy

fifo = Policy(
    name="fifo",
    summary="In order of submission, each job as wide as it can be.",
    question="Which order is perfectly predictable?",
    paper="PCS (OSDI 2024), section 2.1",
    reads_progress=False,
    whole_way=IN_ORDER,
    fractional_way=IN_ORDER,
)
