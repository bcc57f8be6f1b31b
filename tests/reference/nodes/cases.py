"""Small, nasty simulations for property tests and for comparing the engine with this model.

Times are small whole numbers, so that much happens at once. Everything that is compared is an exact number
in floats as well: the largest capacity of each resource is a power of two (times a thousand), demands are
multiples of a quarter, units and FitGpp's weights are powers of two. A tie is then a tie in either arithmetic,
provided that shares are computed as amount / largest.
"""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.reference.nodes.model import BEST_EFFORT, TRIAL, Job, Node, Policy, Resources
from tests.reference.nodes.placement import largest_of, most_tasks, place

ORDERS = ("fifo", "sjf", "ljf", "widest", "slowdown", "wfp3", "unicef")
BACKFILLINGS = ("strict", "skip-over", "easy", "conservative")
PLACEMENTS = ("first", "best", "worst", "best-cores")
PREEMPTIONS = ("fitgpp", "lrtp", "rand", "youngest", "lowest-priority")


@dataclass(frozen=True)
class Case:
    """All that a simulation needs."""

    jobs: tuple[Job, ...]
    nodes: tuple[Node, ...]
    policy: Policy


def scattered(number: int, seq: int) -> int:
    """A fixed draw that puts jobs in another order each time; some jobs tie."""
    return (7 * number * number + 5 * seq + 3 * number * seq) % 11


@st.composite
def nodes_lists(draw, most_nodes: int = 4) -> tuple[Node, ...]:
    """Nodes of one or two types; one resource or two may be missing everywhere, or on some nodes."""
    largest = draw(
        st.tuples(
            st.sampled_from([0, 2000, 4000]),
            st.sampled_from([0, 4000, 8000]),
            st.sampled_from([0, 1024, 4096]),
        ).filter(any)
    )
    lesser = tuple(
        draw(st.sampled_from([0, amount // 4, amount // 2, 3 * amount // 4, amount])) for amount in largest
    )
    types = [largest, lesser] if any(lesser) else [largest]
    rest = draw(st.lists(st.sampled_from(types), max_size=most_nodes - 1))
    return tuple(Node(capacity) for capacity in draw(st.permutations([largest, *rest])))


@st.composite
def demands(draw, nodes: tuple[Node, ...], least_quarters: int = 0, most_quarters: int = 4) -> Resources:
    """What a task needs, in quarters of a node: it fits on that one, perhaps on no other."""
    capacity = draw(st.sampled_from(nodes)).capacity
    quarters = st.integers(least_quarters, most_quarters)
    return draw(st.tuples(*(quarters.map(lambda n, a=a: n * a // 4) for a in capacity)).filter(any))


@st.composite
def jobs_lists(
    draw,
    nodes: tuple[Node, ...],
    *,
    most_jobs: int = 12,
    trials: bool = True,
    priorities: bool = True,
    beliefs: bool = True,
    too_wide: bool = False,
) -> tuple[Job, ...]:
    """Jobs in order of submission.

    `beliefs`: some are smaller than the truth, some larger. `too_wide`: some gangs may be too wide for the
    machine, and some grace periods longer than the usual limit.
    """
    jobs = []
    submit = 0
    for _ in range(draw(st.integers(1, most_jobs))):
        submit += draw(st.sampled_from([0, 0, 0, 1, 1, 2, 5]))
        demand = draw(demands(nodes))
        jobs.append(
            Job(
                submit,
                draw(st.sampled_from([1, 2, 3, 4, 5, 8, 12])),
                demand,
                tasks=draw(_tasks(demand, nodes, too_wide)),
                units=draw(st.sampled_from([1, 2, 4, 8])),
                size=draw(_SIZES) if beliefs else None,
                grace=draw(st.sampled_from([*_GRACES, 4000]) if too_wide else st.sampled_from(_GRACES)),
                qos=draw(st.sampled_from([BEST_EFFORT, TRIAL])) if trials else BEST_EFFORT,
                priority=draw(_PRIORITIES) if priorities else 0,
            )
        )
    return tuple(jobs)


@st.composite
def crowds(draw, nodes: tuple[Node, ...]) -> tuple[Job, ...]:
    """Small best-effort jobs that fill the machine, and then larger ones, most of them in a hurry."""
    jobs = []
    for _ in range(draw(st.integers(3, 8))):
        demand = draw(demands(nodes, 1, 2))
        run = draw(st.sampled_from([8, 12, 13, 20]))
        grace, priority = draw(st.sampled_from(_GRACES)), draw(_PRIORITIES)
        tasks = draw(st.sampled_from([1, 1, min(2, _room(demand, nodes))]))
        jobs.append(Job(0, run, demand, tasks=tasks, grace=grace, priority=priority))
    submit = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 5))):
        demand = draw(demands(nodes, 1, 4))
        jobs.append(
            Job(
                submit,
                draw(st.sampled_from([1, 2, 3, 5])),
                demand,
                tasks=draw(_tasks(demand, nodes, too_wide=False)),
                size=draw(_SIZES),
                grace=draw(st.sampled_from(_GRACES)),
                qos=draw(st.sampled_from([BEST_EFFORT, TRIAL, TRIAL, TRIAL])),
                priority=draw(st.sampled_from([0, 1, 2, 3])),
            )
        )
        submit += draw(st.sampled_from([0, 0, 1, 2, 4]))
    return tuple(jobs)


_GRACES = [0, 0, 0, 1, 2, 4]
_SIZES = st.sampled_from([None, None, 1, 2, 3, 5, 8, 16])
_PRIORITIES = st.sampled_from([0, 0, 1, 2])


def _tasks(demand: Resources, nodes: tuple[Node, ...], too_wide: bool) -> st.SearchStrategy[int]:
    return st.one_of(st.just(1), st.integers(1, 5 if too_wide else min(5, _room(demand, nodes))))


def _room(demand: Resources, nodes: tuple[Node, ...]) -> int:
    """How many such tasks the empty machine holds."""
    return sum(most_tasks(demand, node.capacity) for node in nodes)


@st.composite
def queueing_policies(draw) -> Policy:
    """Orders and backfilling, without preemption."""
    backfilling = draw(st.sampled_from(BACKFILLINGS))
    return Policy(
        order=draw(st.sampled_from(ORDERS)),
        backfilling=backfilling,
        window=draw(st.integers(0, 3)) if backfilling == "skip-over" else 0,
        placement=draw(st.sampled_from(PLACEMENTS)),
        restart_s=draw(st.sampled_from([0, 2])),
        overrun=draw(st.sampled_from(["extend", "kill"])),
    )


def reserving_policies() -> st.SearchStrategy[Policy]:
    """Conservative backfilling, in any order."""
    return queueing_policies().map(lambda policy: replace(policy, backfilling="conservative", window=0))


@st.composite
def preempting_policies(draw, preemptions: tuple[str, ...] = PREEMPTIONS) -> Policy:
    return Policy(
        placement=draw(st.sampled_from(PLACEMENTS)),
        restart_s=draw(st.sampled_from([0, 0, 1, 3])),
        overrun=draw(st.sampled_from(["extend", "kill"])),
        preemption=draw(st.sampled_from(preemptions)),
        preemption_limit=draw(st.sampled_from([0, 1, 1, 2, 3])),
        trim=draw(st.booleans()),
        grace_weight=draw(st.sampled_from([0, 0.5, 1, 4])),
        fallback=draw(st.sampled_from(["rand", "none"])),
        draw=scattered,
    )


@st.composite
def cases(draw, policies: st.SearchStrategy[Policy] | None = None, **of_jobs) -> Case:
    """Whole simulations; `of_jobs` are the arguments of `jobs_lists`."""
    nodes = draw(nodes_lists())
    jobs = draw(jobs_lists(nodes, **of_jobs))
    return Case(jobs, nodes, draw(policies if policies is not None else any_policies()))


@st.composite
def crowded_cases(draw, policies: st.SearchStrategy[Policy] | None = None) -> Case:
    """Simulations in which many jobs are preempted."""
    nodes = draw(nodes_lists(most_nodes=3))
    jobs = draw(crowds(nodes))
    return Case(jobs, nodes, draw(policies if policies is not None else preempting_policies()))


LABELS = ([], ["zone=a"], ["zone=b"], ["zone=b", "kind=fast"], ["zone=a", "kind=fast"])


@st.composite
def labelled(draw, cases: st.SearchStrategy[Case]) -> Case:
    """The same simulations with labels of nodes, some of which jobs require; no node may have those of a job."""
    case = draw(cases)
    nodes = tuple(replace(node, labels=frozenset(draw(st.sampled_from(LABELS)))) for node in case.nodes)
    known = sorted({label for node in nodes for label in node.labels} | {"zone=b"})
    some = st.one_of(st.just(set()), st.sets(st.sampled_from(known), max_size=2))
    jobs = tuple(replace(job, requires=frozenset(draw(some))) for job in case.jobs)
    return Case(jobs, nodes, case.policy)


@st.composite
def with_families(draw, cases: st.SearchStrategy[Case]) -> Case:
    """The same simulations on nodes of two families; some jobs need something else on each, or cannot run there."""
    case = draw(cases)
    nodes = tuple(replace(node, family=draw(st.sampled_from(["p", "c"]))) for node in case.nodes)

    def by_family() -> tuple[tuple[str, Resources], ...]:
        """On the first of them; on another, where no node is, a demand counts for nothing."""
        named = draw(st.lists(st.sampled_from(["p", "c", "none"]), unique=True, min_size=1))
        return tuple((family, draw(demands(nodes))) for family in named)

    jobs = tuple(replace(job, by_family=by_family()) if draw(st.integers(0, 3)) else job for job in case.jobs)
    return Case(jobs, nodes, case.policy)


def any_policies() -> st.SearchStrategy[Policy]:
    return st.one_of(queueing_policies(), preempting_policies())


def is_refused(job: Job, nodes: tuple[Node, ...], policy: Policy) -> bool:
    """Whether the job could never start, or may not leave as slowly as it would."""
    suiting = [node for node in nodes if job.requires <= node.labels]
    capacities, demands_ = (
        [node.capacity for node in suiting],
        [job.demand_on(node.family) for node in suiting],
    )
    fits = place("first", demands_, job.tasks, capacities, largest_of(capacities)) is not None
    return not fits or job.grace > policy.grace_limit_s
