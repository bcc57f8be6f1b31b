"""What reports of progress say of a job's throughput beside others."""

from __future__ import annotations

from betimes.service.scheduling.beliefs import LEAST_ALONE_S, RelativeThroughput

ALONE, BESIDE = frozenset[int](), frozenset({2})


def alone(rate: float = 2.0) -> RelativeThroughput:
    seen = RelativeThroughput.of(None)
    seen.report(0.0, 1, 0.0, ALONE)
    assert seen.report(LEAST_ALONE_S, 1, rate * LEAST_ALONE_S, ALONE) == 1.0
    return seen


def test_nothing_is_said_before_the_throughput_alone_is_known() -> None:
    seen = RelativeThroughput.of(None)
    assert [seen.report(10.0 * n, 1, 10.0 * n, BESIDE) for n in range(20)] == [None] * 20
    assert seen.alone_per_s is None
    assert alone().alone_per_s == 2.0


def test_beside_others_it_is_relative_to_that_alone() -> None:
    seen = alone()
    assert seen.report(100.0, 1, 200.0, BESIDE) is None, "the neighbour came in between"
    assert seen.report(140.0, 1, 240.0, BESIDE) == 0.5
    assert seen.report(180.0, 1, 400.0, BESIDE) == 1.0, "never more than alone"
    assert seen.report(180.0 + 40.0, 1, 400.0, frozenset({2, 3})) is None, "others are beside it now"


def test_what_is_older_counts_for_less() -> None:
    seen = alone()
    seen.report(100.0, 1, 0.0, BESIDE)
    for n in range(1, 11):
        seen.report(100.0 + 40.0 * n, 1, 80.0 * n, BESIDE)
    slowed = [seen.report(500.0 + 40.0 * n, 1, 800.0 + 40.0 * n, BESIDE) or 0.0 for n in range(1, 21)]
    assert slowed == sorted(slowed, reverse=True)
    assert abs(slowed[-1] - 0.5) < 0.01


def test_another_run_and_steps_that_are_repeated_count_for_nothing() -> None:
    seen = alone()
    seen.report(100.0, 1, 200.0, BESIDE)
    assert seen.report(140.0, 2, 900.0, BESIDE) is None
    assert seen.report(180.0, 2, 100.0, BESIDE) is None
    assert seen.report(220.0, 2, 140.0, BESIDE) == 0.5


def test_one_that_is_known_already_is_not_measured_again() -> None:
    seen = RelativeThroughput.of(2.0)
    assert seen.report(0.0, 1, 0.0, BESIDE) is None
    seen.report(10.0, 1, 10.0, BESIDE)
    assert seen.report(50.0, 1, 50.0, BESIDE) == 0.5
