"""Cases worked out by hand for what the specifications leave to us: backfilling, beliefs, gangs, plans."""

from dataclasses import replace

import pytest

from tests.reference.nodes import TRIAL, Job, Node, Policy, State, run
from tests.reference.nodes.placement import place

LRTP = Policy(preemption="lrtp")


def job(submit, run_time, cores, **others):
    return Job(submit, run_time, (0, cores * 1000, 0), **others)


def trial(submit, run_time, cores, **others):
    return job(submit, run_time, cores, qos=TRIAL, **others)


def machine(*cores):
    return [Node((0, count * 1000, 0)) for count in cores]


def starts(outcome):
    return [[start.time for start in one.starts] for one in outcome.jobs]


def first_starts(outcome):
    return [one.start for one in outcome.jobs]


def finishes(outcome):
    return [one.finish for one in outcome.jobs]


def signalled(outcome):
    return [event.job for event in outcome.events if event.kind == "signal"]


# --- backfilling ---

# The head (8 cores) can start at 10, with 2 cores to spare.
TO_SPARE = [job(0, 10, 6), job(0, 5, 8), job(0, 10, 2), job(0, 20, 2), job(0, 20, 1)]


@pytest.mark.parametrize(
    ("backfilling", "expected"), [("strict", [0, 10, 10, 15, 15]), ("easy", [0, 10, 0, 0, 15])]
)
def test_easy_fills_time_before_and_room_beside_the_head(backfilling, expected):
    outcome = run(TO_SPARE, machine(10), Policy(backfilling=backfilling))
    assert first_starts(outcome) == expected


def test_the_room_beside_the_head_is_given_once():
    """4 cores are free until the head starts at 10, then 2: one of the two long jobs may have them."""
    jobs = [job(0, 10, 6), job(0, 5, 8), job(0, 20, 2), job(0, 20, 2)]
    assert first_starts(run(jobs, machine(10), Policy(backfilling="easy"))) == [0, 10, 0, 15]


def test_the_reservation_is_noted():
    outcome = run(TO_SPARE, machine(10), Policy(backfilling="easy"))
    # Of the five jobs, first the wide one and then the last have to wait.
    assert outcome.reservations == [(0, 1, 10, ((0, 1),)), (10, 4, 15, ((0, 1),))]


@pytest.mark.parametrize(
    ("backfilling", "window", "expected"),
    [
        ("strict", 0, [0, 10, 15]),
        ("skip-over", 1, [0, 10, 15]),
        ("skip-over", 0, [0, 20, 0]),
        ("easy", 0, [0, 10, 15]),
        ("conservative", 0, [0, 10, 15]),
    ],
)
def test_only_skipping_over_delays_the_head(backfilling, window, expected):
    jobs = [job(0, 10, 6), job(0, 5, 8), job(0, 20, 4)]
    outcome = run(jobs, machine(10), Policy(backfilling=backfilling, window=window))
    assert first_starts(outcome) == expected


@pytest.mark.parametrize(("window", "expected"), [(2, [0, 10, 10, 20]), (3, [0, 10, 10, 0])])
def test_the_window_counts_jobs_passed_over(window, expected):
    jobs = [job(0, 10, 3), job(0, 10, 2), job(0, 10, 2), job(0, 10, 1)]
    outcome = run(jobs, machine(4), Policy(backfilling="skip-over", window=window))
    assert first_starts(outcome) == expected


@pytest.mark.parametrize(
    ("backfilling", "expected"), [("easy", [0, 10, 20, 0]), ("conservative", [0, 10, 15, 25])]
)
def test_conservative_protects_the_second_in_the_queue_too(backfilling, expected):
    jobs = [job(0, 10, 6), job(0, 5, 8), job(0, 10, 9), job(0, 20, 2)]
    assert first_starts(run(jobs, machine(10), Policy(backfilling=backfilling))) == expected


@pytest.mark.parametrize("backfilling", ["easy", "conservative"])
def test_an_early_end_moves_everyone_up(backfilling):
    jobs = [job(0, 5, 6, size=10), job(0, 5, 8), job(0, 10, 9)]
    assert first_starts(run(jobs, machine(10), Policy(backfilling=backfilling))) == [0, 5, 10]


@pytest.mark.parametrize("backfilling", ["easy", "conservative"])
def test_the_reservation_is_for_a_node(backfilling):
    """The head will need all of node 0 at 10, so that a longer job may only go to node 1."""
    jobs = [job(0, 10, 3), job(0, 20, 3), job(0, 10, 4), job(0, 15, 1), job(0, 10, 1), job(0, 11, 1)]
    outcome = run(jobs, machine(4, 4), Policy(backfilling=backfilling, placement="first"))
    assert first_starts(outcome) == [0, 0, 10, 0, 0, 15]
    assert [one.starts[0].nodes for one in outcome.jobs] == [((node, 1),) for node in (0, 1, 0, 1, 0, 1)]


@pytest.mark.parametrize("backfilling", ["easy", "conservative"])
def test_a_gang_waits_for_jobs_that_end_together(backfilling):
    jobs = [job(0, 10, 4), job(0, 5, 4, tasks=2), job(0, 10, 4), job(0, 4, 4)]
    outcome = run(jobs, machine(4, 4), Policy(backfilling=backfilling))
    assert first_starts(outcome) == [0, 10, 0, 15]
    assert outcome.jobs[1].starts[0].nodes == ((0, 1), (1, 1))


LITTLE_LATE = [job(0, 11, 1, size=10), *(job(at, 100, 1) for at in (1, 2, 3, 4))]


@pytest.mark.parametrize("backfilling", ["easy", "conservative"])
def test_an_overrun_sends_nobody_to_the_back_of_the_queue(backfilling):
    assert first_starts(run(LITTLE_LATE, machine(1), Policy(backfilling=backfilling))) == [
        0,
        11,
        111,
        211,
        311,
    ]


def test_those_behind_who_lost_a_reservation_may_still_fill_gaps():
    """The wide job is put off from 10 to 20, its neighbour gives way; the short one goes between."""
    jobs = [job(0, 15, 1, size=10), job(1, 10, 2), job(2, 10, 2), job(3, 5, 1)]
    outcome = run(jobs, machine(2), Policy(backfilling="conservative"))
    assert first_starts(outcome) == [0, 15, 25, 3]


def test_those_before_the_one_who_lost_a_reservation_keep_theirs():
    """Node 1 is late: whoever waits for node 0 starts as promised, though it might go later too."""
    jobs = [job(0, 10, 2), job(0, 12, 4, size=10), job(1, 10, 2), job(2, 10, 4), job(3, 10, 4)]
    outcome = run(jobs, machine(2, 4), Policy(backfilling="conservative", placement="first"))
    assert first_starts(outcome) == [0, 0, 10, 12, 22]


# --- beliefs ---

OUTRUN = [job(0, 10, 1, size=4), job(0, 5, 2), job(0, 6, 1)]


def test_a_job_that_outruns_its_belief_pushes_the_reservation():
    """Believed to end at 4, then 8, then 16: then there is time for the third job."""
    outcome = run(OUTRUN, machine(2), Policy(backfilling="easy"))
    assert [event.time for event in outcome.events if event.kind == "outrun"] == [4, 8]
    assert first_starts(outcome) == [0, 14, 8]
    assert [(r.made, r.job, r.time) for r in outcome.reservations] == [
        (0, 1, 4),
        (4, 1, 8),
        (8, 1, 16),
        (10, 1, 14),
    ]


def test_or_is_killed():
    outcome = run(OUTRUN, machine(2), Policy(backfilling="easy", overrun="kill"))
    assert [one.state for one in outcome.jobs] == [State.KILLED, State.FINISHED, State.FINISHED]
    assert first_starts(outcome) == [0, 4, 9]
    assert finishes(outcome) == [4, 9, 15]


@pytest.mark.parametrize(("overrun", "finish"), [("kill", 12), ("extend", 16)])
def test_an_estimate_counts_work_not_time(overrun, finish):
    """4 s of work, told to leave, gone at 5, back at 8, at work again from 10: 6 s of work at 12."""
    jobs = [job(0, 10, 4, size=6, grace=1), trial(4, 3, 4)]
    outcome = run(jobs, machine(4), replace(LRTP, restart_s=2, overrun=overrun))
    assert outcome.absences == [(0, 4, 5, 8)]
    assert finishes(outcome) == [finish, 8]


def test_a_restart_that_is_cut_short_made_no_progress():
    jobs = [job(0, 10, 4), trial(4, 3, 4), trial(8, 2, 4)]
    outcome = run(jobs, machine(4), replace(LRTP, restart_s=2, preemption_limit=2))
    assert starts(outcome) == [[0, 7, 10], [4], [8]]
    assert finishes(outcome) == [18, 7, 10]


# --- placement ---


@pytest.mark.parametrize(
    ("rule", "tasks", "expected"),
    [
        ("first", 3, ((0, 2), (1, 1))),
        ("best", 3, ((1, 1), (2, 2))),
        ("best-cores", 3, ((0, 2), (1, 1))),
        ("worst", 3, ((0, 1), (1, 1), (2, 1))),
        ("worst", 4, ((0, 2), (1, 1), (2, 1))),
        ("worst", 2, ((0, 1), (2, 1))),
    ],
)
def test_a_gang_visits_nodes_in_the_order_of_their_scores(rule, tasks, expected):
    """Left over after one task: (1/4, 3/4), (0, 0) and (1/2, 1/2); nothing fits on the last node."""
    free = [(0, 2000, 4), (0, 1000, 1), (0, 3000, 3), (0, 500, 4)]
    assert place(rule, [(0, 1000, 1)] * 4, tasks, free, (0, 4000, 4)) == expected


def test_all_tasks_or_none():
    assert place("first", [(0, 1000, 0)] * 2, 4, [(0, 2000, 0), (0, 1900, 0)], (0, 2000, 0)) is None
    assert place("first", [(0, 1000, 0)] * 2, 3, [(0, 2000, 0), (0, 1900, 0)], (0, 2000, 0)) == (
        (0, 2),
        (1, 1),
    )


def test_what_fits_no_empty_node_is_refused():
    jobs = [job(0, 5, 5), job(0, 5, 3, tasks=3), job(0, 5, 3, tasks=2), job(0, 5, 1, grace=3601)]
    outcome = run(jobs, machine(4, 4), Policy())
    assert [one.state for one in outcome.jobs] == ["refused", "refused", "finished", "refused"]
    assert finishes(outcome) == [None, None, 5, None]


# --- plans ---


def test_a_nominee_reserves_what_its_victims_will_not_leave_it():
    """7 of 8 cores, 6 of them still a victim's: 1 is reserved, and 1 remains for others."""
    jobs = [job(0, 100, 6, grace=4), trial(10, 5, 7), job(11, 1, 1), job(11, 1, 1)]
    outcome = run(jobs, machine(8), LRTP)
    assert starts(outcome) == [[0, 19], [14], [11], [12]]
    assert finishes(outcome) == [109, 19, 12, 13]


def test_what_a_victim_leaves_beyond_what_is_owed_is_free():
    """The second victim leaves 4 cores at 13: 2 for the trial job, and 2 for the last job."""
    jobs = [job(0, 50, 4, grace=1), job(0, 50, 4, grace=3), trial(10, 5, 6), job(12, 1, 2, qos=TRIAL)]
    outcome = run(jobs, machine(8), replace(LRTP, trim=False))
    assert starts(outcome) == [[0, 18], [0, 18], [13], [13]]


def test_a_gang_gathers_nodes_as_its_victims_leave():
    jobs = [job(0, 9, 4), job(0, 9, 4, grace=2), trial(1, 2, 4, tasks=2), job(2, 9, 1)]
    outcome = run(jobs, machine(4, 4), LRTP)
    assert outcome.absences == [(0, 1, 1, 5), (1, 1, 3, 5)]
    assert outcome.jobs[2].starts == ((3, ((0, 1), (1, 1))),)
    assert starts(outcome)[3] == [13]


def test_without_grace_all_happens_in_one_instant():
    outcome = run([job(0, 9, 4), trial(1, 2, 4), job(1, 9, 1)], machine(4), LRTP)
    kinds = [(event.kind, event.job) for event in outcome.events if event.time == 1]
    assert kinds == [
        ("submit", 1),
        ("submit", 2),
        ("nominate", 1),
        ("signal", 0),
        ("vacate", 0),
        ("start", 1),
    ]


@pytest.mark.parametrize(
    ("sizes", "trim", "expected"),
    [
        ((1, 2, 5), False, [0, 1, 2]),
        ((1, 2, 5), True, [2]),
        ((1, 1, 4, 2), False, [0, 1, 2]),
        ((1, 1, 4, 2), True, [0, 2]),
    ],
)
def test_trimming_keeps_the_fewest_and_among_equals_the_earlier(sizes, trim, expected):
    jobs = [job(0, 100 - seq, cores) for seq, cores in enumerate(sizes)] + [trial(1, 5, 5)]
    outcome = run(jobs, machine(8), replace(LRTP, trim=trim))
    assert signalled(outcome) == expected


def test_lrtp_believes_the_estimates():
    jobs = [job(0, 100, 4), job(0, 50, 4, size=200), trial(1, 5, 4)]
    assert signalled(run(jobs, machine(8), LRTP)) == [1]


def test_youngest_counts_the_present_run():
    """Both started at 0, but job 0 had to start once more."""
    jobs = [job(0, 90, 6), job(0, 90, 2), trial(1, 2, 4), trial(5, 2, 2)]
    outcome = run(jobs, machine(8), Policy(preemption="youngest", preemption_limit=2))
    assert outcome.absences == [(0, 1, 1, 3), (0, 5, 5, 7)]


def test_of_equally_young_jobs_the_later_one_leaves():
    jobs = [job(0, 90, 4), job(0, 90, 4), trial(1, 2, 4)]
    assert signalled(run(jobs, machine(8), Policy(preemption="youngest"))) == [1]


def test_lowest_priority_first_then_best_effort_then_youngest():
    jobs = [
        job(0, 90, 2, priority=2),
        trial(1, 90, 2, priority=1),
        job(2, 90, 2, priority=1),
        job(3, 90, 2, priority=1),
        job(10, 1, 1, priority=1),  # may preempt nobody
        job(20, 30, 6, priority=2),  # may preempt all but the first
    ]
    outcome = run(jobs, machine(8), Policy(preemption="lowest-priority"))
    assert signalled(outcome) == [3, 2, 1]
    assert starts(outcome) == [[0], [1, 50], [2, 50], [3, 50], [90], [20]]


def test_a_trial_job_only_preempts_up_to_its_priority():
    jobs = [job(0, 90, 4, priority=1), job(0, 90, 4), trial(1, 5, 4)]
    assert signalled(run(jobs, machine(8), Policy(preemption="lowest-priority"))) == [1]


def test_nobody_is_preempted_more_often_than_the_limit():
    jobs = [job(0, 10, 4), trial(1, 2, 4)]
    outcome = run(jobs, machine(4), replace(LRTP, preemption_limit=0))
    assert outcome.absences == []
    assert outcome.jobs[1].start == 10


def test_random_orders_are_numbered_by_the_plans_they_led_to():
    """At 3 the wide job asks in vain, at 6 it asks again under the same number."""
    asked = []

    def draw(number, seq):
        asked.append(number)
        return seq if number == 2 else -seq

    jobs = [job(0, 90, 2), job(0, 90, 2), trial(1, 5, 2), trial(3, 1, 4), trial(8, 1, 2)]
    outcome = run(jobs, machine(4), Policy(preemption="rand", preemption_limit=2, draw=draw))
    assert asked == [0, 0, 1, 1, 2, 2]
    assert signalled(outcome) == [1, 0, 0]


def test_fitgpp_falls_back_to_a_random_order():
    jobs = [job(0, 90, 2), job(0, 90, 2), job(0, 90, 2), trial(1, 3, 4)]
    policy = Policy(preemption="fitgpp", draw=lambda number, seq: (number, -seq))
    assert signalled(run(jobs, machine(6), policy)) == [2, 1]
    assert signalled(run(jobs, machine(6), replace(policy, fallback="none"))) == []
