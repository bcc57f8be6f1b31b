"""Waits that are played forward."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.foresight.nodes.simulate import simulate_nodes
from tests.foresight.waits.fixtures import CLUSTER, work

pytestmark = pytest.mark.slow  # it has a loop of its own compiled


def test_with_known_run_times_playing_forward_in_strict_order_is_the_oracle() -> None:
    """Unauthenticated who comes later can go ahead, so that what is played is what will be."""
    jobs = work(400)
    strict = "sww:b=30m,backfill=strict,waits="
    played = simulate_nodes(jobs, f"{strict}simulated", cluster=CLUSTER, sizes="true")
    wait_s = played.jobs.start_s - played.jobs.submit_s
    assert np.all(wait_s[played.jobs.rented] == 0.0)
    assert wait_s.max() <= 1800.0
    assert 0 < played.jobs.rented.sum() < len(jobs)


def test_run_times_that_are_only_believed_mislead_it() -> None:
    """Some jobs are thought to start soon, wait for b, and rent."""
    jobs = work(400)
    misled = simulate_nodes(jobs, "sww:b=30m,waits=simulated", cluster=CLUSTER, sizes="noise:0.9")
    wait_s = misled.jobs.start_s - misled.jobs.submit_s
    assert np.any(wait_s[misled.jobs.rented] == 1800.0)
