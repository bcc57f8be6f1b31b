"""Jobs of a replayed trace are promised an end as others are, and the promise knows nothing of what comes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from betimes import Workload, generate
from betimes.cluster import Cluster
from betimes.errors import InputError
from betimes.service.runtime.replay import Arrivals, Source
from betimes.service.scheduling.events import Event
from tests.service.served_traces import serve_trace


@pytest.mark.parametrize("policy", ["fifo", "easy"])
def test_without_surprises_every_promise_is_kept(policy: str, tmp_path: Path) -> None:
    workload = generate("demo:jobs=60", seed=3, units=16)
    workload = replace(workload, estimate_s=np.full(len(workload), np.nan))  # the truth is told
    served = serve_trace(workload, Cluster.pool(16), policy, tmp_path)
    made = served.promises()
    assert sorted(made) == [*range(1, 61)]
    submitted = [event for event in served.store.each_event() if event.kind == "submitted"]
    assert [made[event.job or 0][0] for event in submitted] == [event.at_s for event in submitted]
    if policy == "fifo":  # where who comes later changes nothing
        ends = [made[number][1] for number in sorted(made)]
        np.testing.assert_allclose(ends, served.finish_s, rtol=1e-9)


@pytest.mark.parametrize(("every", "promised"), [(1, [1, 2, 3, 4, 5]), (2, [1, 3, 5]), (0, [])])
def test_every_so_many_of_them_is_promised_an_end(every: int, promised: list[int]) -> None:
    source = Source([], promise_every=every)
    events = [Event(at, 0.0, "submitted", "user:trace", at) for at in range(1, 6)]
    others = [Event(6, 0.0, "submitted", "user:ada", 6), Event(7, 0.0, "queued", "policy", 1)]
    assert source.to_promise(events[:3]) + source.to_promise([*events[3:], *others]) == promised


def test_a_job_that_cannot_be_is_refused_before_the_replay_begins() -> None:
    workload = Workload.from_columns(
        job_id=["a", "b"], submit_s=[0.0, 1.0], work_s=[10.0, 10.0], priority=[0, 10**7], name="two jobs"
    )
    with pytest.raises(InputError, match=r"two jobs, job b: priority: .*1,000,000"):
        Arrivals(workload, Cluster.pool(4), "fifo")
