"""Jobs that wait for each other, in chains longer than Python's stack is deep."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from betimes.service.scheduling.events import Ended, RunId
from tests.service.reliability.cluster import Cluster, spec

LENGTH = sys.getrecursionlimit() + 50


@pytest.mark.parametrize("asked", [{}, {"resources": {"seat": 1}}], ids=["after", "after-and-resources"])
def test_a_long_chain_is_cancelled_when_its_first_job_fails(asked: dict[str, Any]) -> None:
    cluster = Cluster(resources={"seat": 1})
    numbers = cluster.submit(spec(10.0, **asked))
    for _ in range(LENGTH):
        numbers += cluster.scheduler.admission.submit(spec(after=[f"{numbers[-1]}"], **asked), "ann")
    cluster.turn()
    cluster.world.forget(RunId(numbers[0], 1), cluster.now_at)
    cluster.report(Ended(RunId(numbers[0], 1), cluster.now_at, 1))
    cluster.turn()
    assert not cluster.ledger.jobs
    assert {cluster.status(number) for number in numbers[1:]} == {"cancelled"}
    (free,) = cluster.submit(spec(1.0, **asked))
    assert cluster.status(free) == "running"
