"""The model against the worked cases of the specifications (fitgpp B.9, portfolio C.12, waiting A.15)."""

from dataclasses import replace
from fractions import Fraction

import pytest

from tests.reference.nodes import TRIAL, Job, Node, Policy, run
from tests.reference.nodes.cluster import Cluster
from tests.reference.nodes.loop import next_instant, step
from tests.reference.nodes.model import State
from tests.reference.nodes.orders import ranked
from tests.reference.nodes.preemption import fitgpp_scores, plan_for, preemptible


def resources(cpu, memory_gib, gpu):
    """In the order of the specification."""
    return (gpu * 1000, cpu * 1000, memory_gib * 1024)


NODE = Node(resources(32, 256, 8))
FIFO = Policy(order="fifo")
FITGPP = Policy(preemption="fitgpp", fallback="none", trim=False)
LRTP = Policy(preemption="lrtp", trim=False)


def best_effort(submit, run_time, gpu, grace=0):
    return Job(submit, run_time, resources(1, 1, gpu), grace=grace)


def trial(submit, run_time, gpu):
    return Job(submit, run_time, resources(1, 1, gpu), qos=TRIAL)


def slowdowns(jobs, outcome):
    return [Fraction(o.finish - j.submit, j.run) for j, o in zip(jobs, outcome.jobs, strict=True)]


def starts(outcome):
    return [[start.time for start in job.starts] for job in outcome.jobs]


def first_starts(outcome):
    return [job.start for job in outcome.jobs]


def finishes(outcome):
    return [job.finish for job in outcome.jobs]


def waits(jobs, outcome):
    return [o.start - j.submit for j, o in zip(jobs, outcome.jobs, strict=True)]


def nodes_of(outcome):
    """The first start's node of jobs of one task."""
    return [job.starts[0].nodes[0][0] for job in outcome.jobs]


def signalled(outcome):
    return [event.job for event in outcome.events if event.kind == "signal"]


# --- fitgpp B.9 ---

B1 = [best_effort(0, 10, 6), best_effort(1, 10, 4), trial(2, 5, 2)]


def test_b1_fifo_blocks_behind_the_head():
    outcome = run(B1, [NODE], FIFO)
    assert first_starts(outcome) == [0, 10, 10]
    assert slowdowns(B1, outcome) == [1, Fraction("1.9"), Fraction("2.6")]


def test_b1_a_trial_job_that_fits_goes_first():
    outcome = run(B1, [NODE], FITGPP)
    assert first_starts(outcome) == [0, 10, 2]
    assert slowdowns(B1, outcome) == [1, Fraction("1.9"), 1]


B2 = [best_effort(0, 60, 8, grace=3), trial(10, 5, 4), trial(20, 5, 4)]


def test_b2_fifo():
    outcome = run(B2, [NODE], FIFO)
    assert finishes(outcome) == [60, 65, 65]
    assert slowdowns(B2, outcome) == [1, 11, 9]


def test_b2_preempted_at_most_once():
    outcome = run(B2, [NODE], FITGPP)
    assert starts(outcome) == [[0, 18], [13], [68]]
    assert slowdowns(B2, outcome) == [1 + Fraction(8, 60), Fraction("1.6"), Fraction("10.6")]
    assert outcome.absences == [(0, 10, 13, 18)]
    assert [job.preemptions for job in outcome.jobs] == [1, 0, 0]


def test_b2_preempted_at_most_twice():
    outcome = run(B2, [NODE], replace(FITGPP, preemption_limit=2))
    assert starts(outcome) == [[0, 18, 28], [13], [23]]
    assert slowdowns(B2, outcome) == [Fraction(76, 60), Fraction("1.6"), Fraction("1.6")]
    assert outcome.absences == [(0, 10, 13, 18), (0, 20, 23, 28)]


# B3: four best-effort jobs, each on a node that trial jobs fill up; C's node may keep room for itself.
B3_NODES = 4
A, B, C, E = 0, 2, 4, 6  # their seqs
B3_BEST_EFFORT = [
    ((8, 64, 2), 2),
    ((16, 128, 4), 1),
    ((4, 32, 1), 10),
    ((8, 64, 4), 5),
]


def b3(room_beside_c=(0, 0, 0)):
    """The cluster at 10, a trial job (8, 64, 2) having just arrived, its policy not asked yet."""
    jobs = []
    for index, (demand, grace) in enumerate(B3_BEST_EFFORT):
        room = room_beside_c if 2 * index == C else (0, 0, 0)
        filler = [whole - own - left for whole, own, left in zip((32, 256, 8), demand, room, strict=True)]
        jobs.append(Job(2 * index, 1000, resources(*demand), grace=grace))
        jobs.append(Job(2 * index + 1, 1000, resources(*filler), qos=TRIAL))
    jobs.append(Job(10, 5, resources(8, 64, 2), qos=TRIAL))
    cluster = Cluster(jobs, [NODE] * B3_NODES, replace(FITGPP, placement="first"))
    for instant in range(8):
        assert next_instant(cluster) == instant
        step(cluster, instant)
    cluster.now = 10
    cluster.submit(cluster.jobs[-1])
    assert [cluster.jobs[seq].nodes for seq in (A, B, C, E)] == [((node, 1),) for node in range(4)]
    return cluster


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        (0, (0.5, 1, 0.25, 0.707107)),
        (0.5, (0.6, 1.05, 0.75, 0.957107)),
        (1, (0.7, 1.1, 1.25, 1.207107)),
        (4, (1.3, 1.4, 4.25, 2.707107)),
    ],
)
def test_b3_scores(weight, expected):
    cluster = b3()
    cluster.policy = replace(cluster.policy, grace_weight=weight)
    lower = preemptible(cluster, cluster.jobs[-1])
    assert [job.seq for job in lower] == [A, B, C, E]
    scores = fitgpp_scores(cluster, lower)
    assert [scores[seq] for seq in (A, B, C, E)] == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("weight", "room_beside_c", "victim"),
    [(weight, (0, 0, 0), A) for weight in (0, 0.5, 1, 4)]
    + [(0, (4, 32, 1), C), (0.5, (4, 32, 1), A), (1, (4, 32, 1), A), (4, (4, 32, 1), A)],
)
def test_b3_victims(weight, room_beside_c, victim):
    cluster = b3(room_beside_c)
    cluster.policy = replace(cluster.policy, grace_weight=weight)
    plan = plan_for(cluster, cluster.jobs[-1])
    assert plan is not None
    assert [job.seq for job in plan.victims] == [victim]
    assert plan.nodes == ((victim // 2, 1),)


def test_b3_a_job_preempted_before_still_counts_in_the_maxima():
    cluster = b3()
    cluster.jobs[A].preemptions = 1
    plan = plan_for(cluster, cluster.jobs[-1])
    assert plan is not None
    assert [job.seq for job in plan.victims] == [B]


B4 = [best_effort(0, 60, 4, grace=3), best_effort(0, 60, 4, grace=1), trial(10, 5, 4), trial(10, 5, 4)]


def test_b4_fitgpp():
    outcome = run(B4, [NODE], FITGPP)
    assert signalled(outcome) == [1, 0]
    assert starts(outcome) == [[0, 16], [0, 18], [11], [13]]
    assert finishes(outcome) == [66, 68, 16, 18]
    assert slowdowns(B4, outcome) == [Fraction(11, 10), 1 + Fraction(8, 60), Fraction("1.2"), Fraction("1.6")]


def test_b4_lrtp():
    outcome = run(B4, [NODE], LRTP)
    assert signalled(outcome) == [0, 1]
    assert [(job.start, job.finish) for job in outcome.jobs[2:]] == [(13, 18), (11, 16)]


B5 = [
    best_effort(0, 100, 4, grace=2),
    best_effort(0, 20, 4, grace=2),
    best_effort(0, 90, 4, grace=2),
    best_effort(0, 80, 4, grace=2),
    trial(10, 5, 8),
]


def test_b5_lrtp_wastes_a_victim():
    outcome = run(B5, [NODE, NODE], LRTP)
    assert nodes_of(outcome) == [0, 0, 1, 1, 1]
    assert signalled(outcome) == [0, 2, 3]
    assert starts(outcome)[0] == [0, 12]
    assert (outcome.jobs[4].start, outcome.jobs[4].finish) == (12, 17)
    assert finishes(outcome)[:4] == [102, 20, 97, 87]
    assert slowdowns(B5, outcome)[4] == Fraction("1.4")


def test_b5_trimmed_lrtp_spares_it():
    outcome = run(B5, [NODE, NODE], replace(LRTP, trim=True))
    assert signalled(outcome) == [2, 3]
    assert finishes(outcome) == [100, 20, 97, 87, 17]


def test_b5_fitgpp_waits_for_one_victim_that_suffices():
    outcome = run(B5, [NODE, NODE], FITGPP)
    assert outcome.absences == [(0, 20, 22, 27)]
    assert (outcome.jobs[4].start, outcome.jobs[4].finish) == (22, 27)
    assert outcome.jobs[0].finish == 107
    assert slowdowns(B5, outcome)[4] == Fraction("3.4")


def test_b5_fifo():
    outcome = run(B5, [NODE, NODE], FIFO)
    assert outcome.jobs[4].start == 90
    assert slowdowns(B5, outcome)[4] == 17


# --- portfolio C.12, C2 ---

# All compete at the end of a job that fills the machine, a second later than there; each needs a core.
C2 = [
    Job(0, 1001, (0, 4000, 0)),
    Job(1, 3600, (0, 1000, 0), units=8),
    Job(601, 100, (0, 1000, 0), units=1),
    Job(801, 50, (0, 1000, 0), units=4),
    Job(901, 300, (0, 1000, 0), units=64),
]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fifo", [1, 2, 3, 4]),
        ("slowdown", [2, 3, 4, 1]),
        ("wfp3", [3, 2, 4, 1]),
        ("unicef", [2, 3, 1, 4]),
        ("sjf", [3, 2, 4, 1]),
        ("ljf", [1, 4, 2, 3]),
    ],
)
def test_c2_orders(order, expected):
    outcome = run(C2, [Node((0, 4000, 0))], Policy(order=order))
    order_of_starts = [event.job for event in outcome.events if event.kind == "start"]
    assert order_of_starts == [0, *expected]


def test_unicef_counts_one_processor_as_two():
    jobs = [Job(0, 10, (0, 1000, 0), units=units) for units in (4, 2, 1)]
    cluster = Cluster(jobs, [Node((0, 4000, 0))], Policy(order="unicef"))
    assert [job.seq for job in ranked(cluster.jobs, cluster.policy, 5, cluster.largest)] == [1, 2, 0]


def test_dynamic_orders_count_a_second_at_least():
    """Half a second counts as one, so that the first two tie."""
    jobs = [Job(0, 2, (0, 1000, 0), size=size) for size in (1, 0.5, 2)]
    cluster = Cluster(jobs, [Node((0, 4000, 0))], Policy(order="slowdown"))
    assert [job.seq for job in ranked(cluster.jobs, cluster.policy, 5, cluster.largest)] == [0, 1, 2]


def test_widest_first_counts_whole_jobs_and_only_resources_that_there_are():
    cluster = Cluster(
        [
            Job(0, 1, (0, 2000, 1024)),  # 1/4, 1/4
            Job(0, 1, (0, 1000, 1024), tasks=3),  # 3/8, 3/4
            Job(0, 1, (0, 1000, 3072)),  # 1/8, 3/4
            Job(0, 1, (0, 1000, 1024), tasks=2),  # 1/4, 1/2
        ],
        [Node((0, 8000, 2048)), Node((0, 4000, 4096))],
        Policy(order="widest"),
    )
    order = ranked(cluster.jobs, cluster.policy, 0, cluster.largest)
    assert [job.seq for job in order] == [1, 2, 3, 0]


# --- waiting A.15, A3 and A4 ---


def cores(submit, count, run_time):
    return Job(submit, run_time, (0, count * 1000, 0))


FOUR_CORES = Node((0, 4000, 0))


def test_a3_strict_and_work_conserving():
    jobs = [cores(0, 3, 100), cores(10, 2, 50), cores(20, 1, 50)]
    assert waits(jobs, run(jobs, [FOUR_CORES], Policy(backfilling="strict"))) == [0, 90, 80]
    assert waits(jobs, run(jobs, [FOUR_CORES], Policy(backfilling="skip-over"))) == [0, 90, 0]


@pytest.mark.parametrize("backfilling", ["strict", "skip-over", "easy", "conservative"])
def test_a4_first_and_best_fit(backfilling):
    jobs = [cores(0, 2, 100), cores(1, 3, 100), cores(2, 1, 100), cores(3, 2, 100)]
    first = Policy(backfilling=backfilling, placement="first")
    best = replace(first, placement="best")
    assert waits(jobs, run(jobs, [FOUR_CORES] * 2, first)) == [0, 0, 0, 97]
    assert waits(jobs, run(jobs, [FOUR_CORES] * 2, best)) == [0, 0, 0, 0]


def test_the_order_of_states_is_the_life_of_a_job():
    outcome = run(B2, [NODE], FITGPP)
    kinds = [(event.time, event.kind) for event in outcome.events if event.job == 0]
    assert kinds == [
        (0, "submit"),
        (0, "start"),
        (10, "signal"),
        (13, "vacate"),
        (18, "start"),
        (68, "finish"),
    ]
    assert {job.state for job in outcome.jobs} == {State.FINISHED}
