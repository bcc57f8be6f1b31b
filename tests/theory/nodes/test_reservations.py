"""EASY never delays the job with the reservation, conservative backfilling nobody; recomputed from who runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes import Result, Workload, read_trace
from betimes.cluster import Cluster
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.twin.nodes.tasks import Tasks, tasks_of
from tests.theory.nodes.mixtures import Mixture, mixture
from tests.theory.nodes.replications import waits
from tests.theory.nodes.watching import Seen, Stay, Vector, demands_of, finds_room, given_back, plus, watch
from tests.theory.queues import Floats

LOG = Path(__file__).resolve().parents[4] / "shared" / "data" / "swf" / "KTH-SP2-1996-2.swf.gz"
PROCESSORS = 100
HEAD = 2500  # jobs


@cache
def kth_sp2() -> Workload:
    """A year of an IBM SP2 of 100 processors; who outran an estimate is taken to have asked for what it took."""
    if not LOG.is_file():
        pytest.skip(f"the public traces are not here: there is no {LOG}")
    jobs = read_trace(LOG)
    return replace(jobs, estimate_s=np.maximum(jobs.estimate_s, jobs.work_s / jobs.max_units))


class Promises:
    """What the first job that waits could count on at every instant, from estimates, whoever ran then."""

    def __init__(self, workload: Workload, tasks: Tasks) -> None:
        self.estimate_s: list[float] = workload.estimate_s.tolist()
        self.demands, self.counts = demands_of(tasks), tasks.count.tolist()
        self.latest: dict[int, float] = {}  # by row: the least of all that was promised

    def earliest(self, seen: Seen, row: int) -> tuple[float, list[Vector]]:
        """When the job fits if everybody ends as estimated and nobody else starts, and what is free then."""

        def end(stay: Stay) -> float:
            return stay.since + self.estimate_s[stay.row]

        free = seen.free
        for at, leavers in groupby(sorted(seen.running, key=end), end):
            free = given_back(free, leavers, self.demands)
            if finds_room(self.demands[row], self.counts[row], free):
                return at, free
        raise AssertionError(f"row {row} never fits")

    def look(self, seen: Seen) -> None:
        if not seen.waiting:
            return
        self.look_behind(seen, *self.look_at_first(seen))

    def look_at_first(self, seen: Seen) -> tuple[float, list[Vector]]:
        head = seen.waiting[0]
        assert not finds_room(self.demands[head], self.counts[head], seen.free)
        at, then = self.earliest(seen, head)
        assert at == seen.shadow_s
        self.latest[head] = min(at, self.latest.get(head, math.inf))
        return at, then

    def look_behind(self, seen: Seen, shadow_s: float, then: list[Vector]) -> None:
        """The others that wait: on several nodes it matters where the first will go."""

    def are_kept_by(self, result: Result) -> None:
        rows = np.array(list(self.latest))
        assert np.all(result.jobs.start_s[rows] <= np.array(list(self.latest.values())))


class PoolPromises(Promises):
    """The same on one pool, where one also knows that nobody who could go ahead was left behind."""

    def look_behind(self, seen: Seen, shadow_s: float, then: list[Vector]) -> None:
        head, *others = seen.waiting
        beside = plus(then[0], self.demands[head], -self.counts[head])[1]
        now = seen.free[0][1]
        for row in others:
            need = self.demands[row][1] * self.counts[row]
            in_time = seen.now + self.estimate_s[row] <= shadow_s
            assert need > now or (not in_time and need > beside)


def test_easy_keeps_its_promises_on_a_real_log() -> None:
    workload = kth_sp2()[:HEAD]
    cluster = Cluster.pool(PROCESSORS)
    promises = PoolPromises(workload, tasks_of(workload, cluster))
    result = watch(workload, "easy", cluster, promises.look, sizes="estimate")
    promises.are_kept_by(result)
    assert len(promises.latest) > HEAD / 20
    assert len(overtaken(result)) > HEAD / 20


@given(seed=st.integers(0, 2**32), rule=st.sampled_from(["first", "best", "worst"]))
def test_easy_keeps_its_promises_on_nodes(seed: int, rule: str) -> None:
    jobs = mixture(seed, jobs=60, load_frac=2.0)
    promises = Promises(jobs.workload, jobs.tasks)
    result = watch(
        jobs.workload,
        f"easy:placement={rule}",
        jobs.cluster,
        promises.look,
        tasks=jobs.tasks,
        sizes="estimate",
    )
    promises.are_kept_by(result)


def overtaken(result: Result) -> Sequence[int]:
    """Rows that started after somebody who came later."""
    start_s = result.jobs.start_s
    first_behind = np.minimum.accumulate(start_s[::-1])[::-1]
    return np.flatnonzero(start_s[:-1] > first_behind[1:]).tolist()


def test_strict_order_would_fail_the_completeness_that_easy_is_held_to() -> None:
    workload = kth_sp2()[:500]
    cluster = Cluster.pool(PROCESSORS)
    promises = PoolPromises(workload, tasks_of(workload, cluster))

    def look(seen: Seen) -> None:
        if seen.waiting:
            promises.look(replace(seen, shadow_s=promises.earliest(seen, seen.waiting[0])[0]))

    with pytest.raises(AssertionError):
        watch(workload, "fifo", cluster, look, sizes="estimate")


def test_skipping_over_breaks_the_promises_that_easy_keeps() -> None:
    workload = kth_sp2()[: HEAD // 2]
    cluster = Cluster.pool(PROCESSORS)
    promises = Promises(workload, tasks_of(workload, cluster))

    def look(seen: Seen) -> None:
        if seen.waiting:
            promises.look(replace(seen, shadow_s=promises.earliest(seen, seen.waiting[0])[0]))

    result = watch(workload, "skip-over", cluster, look, sizes="estimate")
    with pytest.raises(AssertionError):
        promises.are_kept_by(result)


# --- conservative ---


def delayed(workload: Workload, policy: str, cluster: Cluster, *, sizes: str) -> Floats:
    """Seconds by which each job started later than its reservation at submission said; below 0: earlier."""
    jobs = simulate_nodes(workload, policy, cluster=cluster, predict=True, sizes=sizes).jobs
    runtime_estimate_s = workload.work_s / workload.max_units if sizes == "true" else workload.estimate_s
    return jobs.start_s - (jobs.predicted_finish_s - runtime_estimate_s)


def test_conservative_keeps_every_reservation_where_estimates_are_exact() -> None:
    # No job ends early, so that none can move up, and later ones disturb none: to the second.
    late_s = delayed(kth_sp2()[:HEAD], "conservative", Cluster.pool(PROCESSORS), sizes="true")
    np.testing.assert_array_equal(late_s, 0.0)


@given(seed=st.integers(0, 2**32))
def test_conservative_keeps_every_reservation_on_one_node(seed: int) -> None:
    jobs: Mixture = mixture(seed, jobs=60, load_frac=2.0, nodes=(1,))
    np.testing.assert_array_equal(delayed(jobs.workload, "conservative", jobs.cluster, sizes="true"), 0.0)


def test_easy_keeps_the_reservation_of_the_first_alone() -> None:
    assert delayed(kth_sp2()[:HEAD], "easy", Cluster.pool(PROCESSORS), sizes="true").max() > 3600.0


def test_strict_order_is_never_later_than_estimates_say() -> None:
    # Shorter runs than believed only ever help those behind (monotonicity of first come, first served).
    late_s = delayed(kth_sp2()[:HEAD], "fifo", Cluster.pool(PROCESSORS), sizes="estimate")
    assert late_s.max() <= 0.0
    assert np.mean(late_s < 0.0) > 0.5


# --- both, against strict order ---


def test_backfilling_shortens_the_wait_of_a_whole_year() -> None:
    workload = kth_sp2()
    cluster = Cluster.pool(PROCESSORS)
    fifo, easy, conservative = (
        waits(simulate_nodes(workload, policy, cluster=cluster)).mean()
        for policy in ("fifo", "easy", "conservative")
    )
    assert easy < 0.1 * fifo
    assert easy < conservative < 0.1 * fifo
