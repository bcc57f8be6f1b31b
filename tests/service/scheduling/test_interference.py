"""What reports of progress say of a job's throughput beside others."""

from __future__ import annotations

from betimes.service.scheduling.throughputs import LEAST_ALONE_S, RelativeThroughput, Types

ALONE, BESIDE = frozenset[int](), frozenset({2})
PLAIN, QUICK = ("plain",), ("quick",)
SPEEDS: dict[Types, float] = {PLAIN: 1.0, QUICK: 2.0}


class Reports:
    """A job's reports from machines of one type, `plain` until it moves."""

    def __init__(self, seen: RelativeThroughput) -> None:
        self.seen, self.on = seen, PLAIN

    def __call__(self, at_s: float, attempt: int, done: float, beside: frozenset[int]) -> float | None:
        return self.seen.report(at_s, attempt, done, beside, self.on, SPEEDS.__getitem__)

    def alone_per_s(self, on: Types = PLAIN) -> float | None:
        return self.seen.alone_per_s(on)


def alone(rate: float = 2.0) -> Reports:
    report = Reports(RelativeThroughput.of(None, ()))
    report(0.0, 1, 0.0, ALONE)  # a run on other machines than before: nothing is counted yet
    report(0.0, 1, 0.0, ALONE)
    assert report(LEAST_ALONE_S, 1, rate * LEAST_ALONE_S, ALONE) == 1.0
    return report


def test_nothing_is_said_before_the_throughput_alone_is_known() -> None:
    report = Reports(RelativeThroughput.of(None, ()))
    assert [report(10.0 * n, 1, 10.0 * n, BESIDE) for n in range(20)] == [None] * 20
    assert report.alone_per_s() is None
    assert alone().alone_per_s() == 2.0


def test_one_long_interval_is_not_enough() -> None:
    report = Reports(RelativeThroughput.of(None, ()))
    report(0.0, 1, 0.0, ALONE)
    report(0.5, 1, 1.0, ALONE)
    assert report(300.5, 1, 301.0, ALONE) is not None


def test_beside_others_it_is_relative_to_that_alone() -> None:
    report = alone()
    assert report(100.0, 1, 200.0, BESIDE) is None, "the neighbour came in between"
    assert report(140.0, 1, 240.0, BESIDE) == 0.5
    assert report(180.0, 1, 400.0, BESIDE) == 1.0, "never more than alone"
    assert report(180.0 + 40.0, 1, 400.0, frozenset({2, 3})) is None, "others are beside it now"


def test_what_is_older_counts_for_less() -> None:
    report = alone()
    report(100.0, 1, 0.0, BESIDE)
    for n in range(1, 11):
        report(100.0 + 40.0 * n, 1, 80.0 * n, BESIDE)
    slowed = [report(500.0 + 40.0 * n, 1, 800.0 + 40.0 * n, BESIDE) or 0.0 for n in range(1, 21)]
    assert slowed == sorted(slowed, reverse=True)
    assert abs(slowed[-1] - 0.5) < 0.01


def test_another_run_and_steps_that_are_repeated_count_for_nothing() -> None:
    report = alone()
    report(100.0, 1, 200.0, BESIDE)
    assert report(140.0, 2, 900.0, BESIDE) is None
    assert report(180.0, 2, 100.0, BESIDE) is None
    assert report(220.0, 2, 140.0, BESIDE) == 0.5


def test_one_that_is_known_already_is_not_measured_again() -> None:
    report = Reports(RelativeThroughput.of(2.0, PLAIN))
    assert report(0.0, 1, 0.0, BESIDE) is None
    report(10.0, 1, 10.0, BESIDE)
    assert report(50.0, 1, 50.0, BESIDE) == 0.5


def test_the_speed_of_a_type_is_not_taken_for_that_of_neighbours() -> None:
    report = alone()
    report.on = QUICK
    report(100.0, 2, 200.0, BESIDE)
    assert report(140.0, 2, 280.0, BESIDE) == 0.5, "4 steps a second are expected there, and 2 come"
    assert report.alone_per_s(QUICK) is None, "of the type nothing is known by this"


def test_what_it_did_alone_there_counts_more_than_what_the_type_is_believed_to_do() -> None:
    report = alone()
    report.on = QUICK
    for at_s in (100.0, 130.0, 160.0, 190.0):
        assert report(at_s, 2, 200.0 + 3.0 * (at_s - 100.0), ALONE) == 1.0
    assert report.alone_per_s(QUICK) == 3.0
    assert report.alone_per_s(PLAIN) == 2.0
    report(200.0, 2, 500.0, BESIDE)
    assert report(240.0, 2, 560.0, BESIDE) == 0.5


def test_another_type_is_another_place_beside_the_same_job() -> None:
    report = alone()
    report(100.0, 1, 200.0, BESIDE)
    report(140.0, 1, 240.0, BESIDE)
    report.on = QUICK
    assert report(150.0, 2, 240.0, BESIDE) is None
    assert report(190.0, 2, 400.0, BESIDE) == 1.0
