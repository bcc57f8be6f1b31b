"""The instructions of live nodes are of the jobs that the core decided about."""

from __future__ import annotations

import numpy as np

from betimes.cluster.labels import NONE
from betimes.cluster.offer import Offer
from betimes.cluster.shapes import Shape
from betimes.policies import parse_nodes_policy
from betimes.service.engines.messages import Allocation, Grant, Inputs, JobRequest
from betimes.service.engines.nodes import LiveNodes


def test_a_job_in_the_slot_of_one_that_ends_on_its_rented_machine_is_not_stopped() -> None:
    shapes = (Shape((0, 4000, 0), NONE, ""),)
    engine = LiveNodes(
        parse_nodes_policy("njw"),
        shapes,
        np.zeros(1, np.int64),
        shapes=shapes,
        units=4.0,
        offers=[Offer(type="big", cpu=8.0, memory_gib=8.0, usd_per_h=1.0)],
    )
    engine.happen(
        0.0, Inputs(requests=[JobRequest(1, 4, 4, "linear", 50.0), JobRequest(2, 8, 8, "linear", 50.0)])
    )
    engine.start_alone(2, 0.0)
    rounds = engine.happen(9.0, Inputs(done=[1, 2], requests=[JobRequest(3, 4, 4, "linear", 50.0)]))
    instructions = [each for one in rounds for each in one.instructions]
    assert instructions == [Grant(3, 0, 4, (Allocation(0, 4),), 4)]
