"""Simulations that begin from a state: what runs goes on where it is, and what waits keeps its order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import betimes
from betimes import ClusterState, RunningJob, Workload
from betimes.cluster import Cluster, NodeGroup
from betimes.core.nodes.columns import NodesState
from betimes.errors import BetimesError, InputError
from betimes.foresight.engines import engine_for
from betimes.kernels import as_array
from betimes.outcome import Result
from betimes.policies import parse_nodes_policy, parse_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from betimes.twin.pool.simulation import Simulation
from betimes.twin.sizes import parse_sizes

CLUSTER = Cluster("five", (NodeGroup("n", 3, 2.0, 8.0, 32.0), NodeGroup("m", 2, 0.0, 8.0, 16.0)))
TWO = Cluster(
    "two",
    (
        NodeGroup("both", 1, 0.0, 8.0, 8.0, labels=(("batch", "yes"), ("short", "yes"))),
        NodeGroup("batch", 1, 0.0, 8.0, 8.0, labels=(("batch", "yes"),)),
    ),
)
RANDOM = "rand"  # draws its victims by the order of all submissions, which is not in a state
ON_NODES = [
    "fifo",
    "easy",
    "conservative",
    "slurm",
    "skip-over",
    "sjf",
    "wfp3",
    "fitgpp",
    "lrtp",
    "youngest",
    RANDOM,
]
# Classes that are given: those of `wfq` alone are made from all jobs of a run, which a state and what is left are not.
IN_CLASSES = "wfq:thresholds=100+250,weights=1/2+1/4+1/4"
IN_A_POOL = ["fifo", "srtf", "las:quantum=20", "themis:lease=20", "afs", "max-min", IN_CLASSES]


def workload(seed: int, jobs: int = 24, *, is_rigid: bool = True, **columns: Any) -> Workload:
    rng = np.random.default_rng(seed)
    most = rng.integers(1, 7, jobs)
    given: dict[str, Any] = {
        "submit_s": np.sort(rng.integers(0, 150, jobs)).astype(float),
        "work_s": (rng.integers(5, 80, jobs) * most).astype(float),
        "min_units": most if is_rigid else np.ones(jobs, dtype=int),
        "max_units": most,
        "estimate_s": rng.integers(5, 120, jobs).astype(float),
        "cpu": rng.integers(1, 4, jobs).astype(float),
        "gpu": (rng.random(jobs) < 0.3).astype(float),
        "memory_gib": 1.0,
        "qos": (rng.random(jobs) < 0.3).astype(int),
        "grace_s": rng.integers(0, 6, jobs).astype(float),
    }
    return Workload.from_columns(**(given | columns))


def simulation(jobs: Workload, policy: str, options: SimulationOptions) -> Simulation | NodesSimulation:
    if engine_for(policy, options.engine) == "pool":
        return Simulation(jobs, parse_policy(policy), options)
    return NodesSimulation(jobs, parse_nodes_policy(policy), options)


def leaves(state: NodesState) -> bool:
    """Whether a job is leaving its nodes, and another waits for that."""
    needs, evictions = as_array(state.needs), as_array(state.evictions)
    lives = as_array(state.progress)["served_by"] >= 0
    return bool((lives & ((needs["bound"] >= 0) | (evictions["vacate_at"] < np.inf))).any())


def cut(
    jobs: Workload, policy: str, options: SimulationOptions, at_s: float
) -> tuple[Workload, ClusterState]:
    """The state in which a run is at an instant, or later, and the jobs that are in it or come after that."""
    run = simulation(jobs, policy, options)
    run.advance_to(at_s)
    while isinstance(run, NodesSimulation) and leaves(run.state):
        run.advance_to(at_s := at_s + 1.0)
    state = run.cluster_state()
    here = [*state.waiting, *(job.job_id for job in state.running)]
    return jobs[(jobs.submit_s > state.now_s) | np.isin(jobs.job_id.astype(np.str_), here)], state


def outcome(result: Result, jobs: Workload) -> list[list[float]]:
    rows, found = np.isin(result.jobs.job_id, jobs.job_id), result.jobs
    columns = (
        found.start_s,
        found.finish_s,
        found.units_s,
        found.preemptions,
        found.resizes,
        found.restart_s,
    )
    return [column[rows].tolist() for column in columns]


@given(
    policy=st.sampled_from([each for each in ON_NODES if each != RANDOM]),
    seed=st.integers(0, 1 << 32),
    at_s=st.floats(0.0, 200.0),
    sizes=st.sampled_from(["true", "estimate"]),
)
def test_a_run_on_nodes_goes_on_from_a_state_that_it_passed_through(
    policy: str, seed: int, at_s: float, sizes: str
) -> None:
    if policy == "conservative":  # reservations that wrong estimates have left behind are not in a state
        sizes = "true"
    jobs = workload(seed)
    options = SimulationOptions(
        cluster=CLUSTER, engine="nodes", sizes=parse_sizes(sizes), restart_s=3.0, on_wide="drop"
    )
    left, state = cut(jobs, policy, options, at_s)
    whole = betimes.simulate(jobs, policy, options)
    if len(left):
        assert outcome(betimes.simulate(left, policy, options, state=state), left) == outcome(whole, left)


@given(
    policy=st.sampled_from(IN_A_POOL),
    seed=st.integers(0, 1 << 32),
    at_s=st.floats(0.0, 200.0),
    kind=st.sampled_from(["units", "fractional", "cluster"]),
)
def test_a_run_of_a_pool_goes_on_from_a_state_that_it_passed_through(
    policy: str, seed: int, at_s: float, kind: str
) -> None:
    demand: dict[str, Any] = {} if kind == "cluster" else {"gpu": np.nan}
    jobs = workload(seed, is_rigid=False, **demand)
    where: dict[str, Any] = {"cluster": CLUSTER} if kind == "cluster" else {"units": 16}
    options = SimulationOptions(
        **where, engine="pool", fractional=kind == "fractional", sizes=parse_sizes("estimate"), restart_s=3.0
    )
    left, state = cut(jobs, policy, options, at_s)
    whole = betimes.simulate(jobs, policy, options)
    if len(left):
        assert outcome(betimes.simulate(left, policy, options, state=state), left) == outcome(whole, left)


@st.composite
def states(draw: st.DrawFn) -> tuple[Workload, ClusterState]:
    """Jobs of one core a unit; some of the first run wherever there is room, the others wait in any order."""
    jobs = workload(draw(st.integers(0, 1 << 32)), cpu=1.0, gpu=0.0)
    now_s = float(draw(st.integers(0, 160)))
    free = dict.fromkeys(CLUSTER.node_names, 8)
    running, waiting = list[RunningJob](), list[str]()
    for row in np.flatnonzero(jobs.submit_s <= now_s).tolist():
        width, left_s = int(jobs.max_units[row]), draw(st.sampled_from([None, 0.5, 40.0]))
        age_s = draw(st.integers(0, int(min(now_s - jobs.submit_s[row], jobs.work_s[row] / width - 1))))
        first = draw(st.sampled_from(list(free)))
        on = dict[str, int]()
        for node in [first, *(each for each in free if each != first)]:
            if width > sum(on.values()) and free[node] > 0:
                on[node] = min(free[node], width - sum(on.values()), draw(st.integers(1, 6)))
        if sum(on.values()) == width and draw(st.booleans()):
            running.append(RunningJob(str(jobs.job_id[row]), now_s - age_s, on, left_s=left_s))
            free = {node: room - on.get(node, 0) for node, room in free.items()}
        else:
            waiting.append(str(jobs.job_id[row]))
    return jobs, ClusterState(now_s, running, draw(st.permutations(waiting)))


@given(states(), st.sampled_from(ON_NODES))
def test_what_runs_goes_on_where_it_is_until_its_work_is_done_or_the_policy_preempts_it(
    drawn: tuple[Workload, ClusterState], policy: str
) -> None:
    jobs, state = drawn
    options = SimulationOptions(cluster=CLUSTER, sizes=parse_sizes("estimate"), timeline=True, state=state)
    result = betimes.simulate(jobs, policy, options)
    assert result.decisions is not None
    assert result.segments is not None
    run, later_s = NodesSimulation(jobs, parse_nodes_policy(policy), options), state.now_s + 10.0
    run.advance_to(later_s)
    then = {} if leaves(run.state) else run.cluster_state().running_by_id
    for job in state.running:
        row = jobs.job_id.tolist().index(type(jobs.job_id.tolist()[0])(job.job_id))
        lines = [
            what for what, of in zip(result.decisions.what, result.decisions.row, strict=True) if of == row
        ]
        assert set(lines) <= {"preempt", "start", "bind", "double"}
        moved = [what for what in lines if what != "double"]
        assert result.jobs.start_s[row] == job.since_s
        if moved:
            assert moved[0] == "preempt"
            assert parse_nodes_policy(policy).policy.evict is not None
            continue
        left_s = jobs.work_s[row] / jobs.max_units[row] - (state.now_s - job.since_s)
        finish_s = state.now_s + (left_s if job.left_s is None else job.left_s)
        assert result.jobs.finish_s[row] == pytest.approx(finish_s)
        of = result.segments.row == row
        assert set(result.segments.start_s[of]) == {job.since_s}
        assert set(result.segments.end_s[of]) == {float(result.jobs.finish_s[row])}
        if job.job_id in then:
            assert dict(then[job.job_id].nodes) == dict(job.nodes)
    if policy == "fifo":
        rows = [jobs.job_id.tolist().index(int(job)) for job in state.waiting]
        assert result.jobs.start_s[rows].tolist() == sorted(result.jobs.start_s[rows].tolist())


@pytest.mark.parametrize(("policy", "where"), [("easy", {"cluster": CLUSTER}), ("srtf", {"units": 16})])
@pytest.mark.parametrize("sizes", ["true", "estimate"])
def test_all_jobs_of_a_state_are_promised_their_ends(policy: str, where: dict[str, Any], sizes: str) -> None:
    jobs = workload(4, 12, submit_s=np.arange(12.0), gpu=0.0)
    options = SimulationOptions(**where, sizes=parse_sizes("true"))
    left, state = cut(jobs, policy, options, 20.0)
    assert state.running
    assert state.waiting
    result = betimes.simulate(left, policy, options, sizes=sizes, state=state, predict=True)
    if sizes == "true":  # and nothing comes later
        assert result.jobs.predicted_finish_s == pytest.approx(result.jobs.finish_s)
    assert (result.jobs.predicted_finish_s > state.now_s).all()
    intervals = betimes.simulate(
        left, policy, options, sizes=sizes, state=state, predict=True, interval=0.8
    ).intervals
    assert intervals is not None
    assert (intervals.predicted_low_s >= state.now_s).all()
    assert (intervals.predicted_high_s > intervals.predicted_low_s).all()


def two(**columns: Any) -> Workload:
    given: dict[str, Any] = {
        "submit_s": [0.0, 0.0, 5.0], "work_s": [4800.0, 480.0, 80.0], "max_units": 8, "min_units": 8, "cpu": 1.0,
        "estimate_s": [600.0, 60.0, 100.0], "job_id": ["a", "b", "c"],
        "require": ["batch=yes", "short=yes", "short=yes"],
    }  # fmt: skip
    return Workload.from_columns(**(given | columns))


def test_a_job_that_runs_beside_another_is_not_placed_anew() -> None:
    state = ClusterState(
        50.0, [RunningJob("a", 0.0, {"batch-0": 8}), RunningJob("b", 10.0, {"both-0": 8})], ["c"]
    )
    for policy in ("fifo", "easy", "conservative"):
        found = betimes.simulate(two(), policy, cluster=TWO, state=state).jobs
        assert found.start_s.tolist() == [0.0, 10.0, 70.0]
        assert found.finish_s.tolist() == [600.0, 70.0, 80.0]


def test_a_closed_node_takes_nothing_and_what_runs_there_goes_on() -> None:
    jobs = two(require=["batch=yes", "short=yes", ""])
    state = ClusterState(50.0, [RunningJob("b", 10.0, {"both-0": 8})], ["a", "c"], closed=["both-0"])
    found = betimes.simulate(jobs, "skip-over", cluster=TWO, state=state).jobs
    assert found.start_s.tolist() == [50.0, 10.0, 650.0]


@pytest.mark.parametrize("where", [{"cluster": CLUSTER}, {"units": 16}])
def test_what_runs_counts_for_its_user(where: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("user,weight,max_running_jobs\n1,1,1\n")
    jobs = Workload.from_columns(
        submit_s=[0.0, 0.0, 5.0], work_s=[60.0, 10.0, 10.0], max_units=1, cpu=1.0, gpu=0.0, memory_gib=1.0,
        user=[1, 1, 2], job_id=["a", "b", "c"],
    )  # fmt: skip
    running = RunningJob("a", 0.0, {"n-0": 1}) if "cluster" in where else RunningJob("a", 0.0, units=1)
    state = ClusterState(10.0, [running], ["b", "c"])
    for policy in ("fifo", "skip-over") if "cluster" in where else ("fifo", "srsf"):
        users = f"fair:file={tmp_path / 'users.csv'}"
        found = betimes.simulate(jobs, policy, state=state, users=users, **where).jobs
        assert found.start_s.tolist() == [0.0, 60.0, 10.0]


@pytest.mark.parametrize(
    ("running", "waiting", "why"),
    [
        ([RunningJob("a", 60.0, {"batch-0": 8})], ["b", "c"], "job a: it runs since 60 s, after now_s (50 s)"),
        ([RunningJob("a", 0.0, {"batch-0": 8})], ["b", "a", "c"], "job a: it is there twice"),
        ([RunningJob("a", 0.0, {"batch-0": 8})], ["b"], "job c: it is submitted by now_s (50 s), and neither"),
        ([RunningJob("a", 0.0, {"batch-0": 8})], ["b", "c", "d"], "job d: the workload has no such job"),
        ([RunningJob("a", 0.0, {"batch-9": 8})], ["b", "c"], "node batch-9: cluster two has no such node"),
        ([RunningJob("a", 0.0, {"batch-0": 4})], ["b", "c"], "job a: it holds 4 units, and its row says 8"),
        ([RunningJob("a", 0.0, {"batch-0": 4, "both-0": 4}), RunningJob("c", 6.0, {"both-0": 8}, left_s=1.0)], ["b"],
         "node both-0: jobs a, c would hold 12 cpu there, and it has 8"),
        ([RunningJob("b", 0.0, {"batch-0": 8})], ["a", "c"], "job b: node batch-0 lacks a label"),
        ([RunningJob("c", 0.0, {"both-0": 8})], ["a", "b"], "job c: it runs since 0 s, and is submitted at 5 s"),
        ([RunningJob("c", 6.0, {"both-0": 8})], ["a", "b"], "job c: it has run for 44 s, and is over after 10 s"),
        ([RunningJob("a", 0.0, units=8)], ["b", "c"], "job a: it runs on nodes; give its units on each"),
    ],
)  # fmt: skip
def test_a_state_that_cannot_be_is_refused(
    running: Sequence[RunningJob], waiting: Sequence[str], why: str
) -> None:
    with pytest.raises(InputError) as refused:
        betimes.simulate(two(), "fifo", cluster=TWO, state=ClusterState(50.0, running, waiting))
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: RunningJob("a", 0.0), "it holds nothing"),
        (lambda: RunningJob("a", 0.0, units=2, left_s=0.0), "0 s left"),
        (lambda: RunningJob("a", float("nan"), units=2), "since nan s"),
        (lambda: ClusterState(-1.0), "now_s -1"),
    ],
)
def test_numbers_that_no_run_has_are_refused(make: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        make()


@pytest.mark.parametrize(
    ("options", "running", "why"),
    [
        ({"units": 8}, [RunningJob("a", 0.0, units=9)], "job a: it holds 9 units, and its row says 8 to 8"),
        ({"units": 8}, [RunningJob("a", 0.0, {"pool-0": 8})], "the pool has no nodes"),
        ({"units": 12}, [RunningJob("a", 0.0, units=8), RunningJob("b", 0.0, units=8)],
         "hold 16 units, the pool has 12"),
        ({"cluster": TWO}, [RunningJob("a", 0.0, units=8)], "the pool has nodes; give its units on each"),
        ({"units": 8, "as_trials": True}, [RunningJob("a", 0.0, units=8)], "leave state or as_trials out"),
    ],
)  # fmt: skip
def test_a_state_that_a_pool_cannot_be_in_is_refused(
    options: dict[str, Any], running: Sequence[RunningJob], why: str
) -> None:
    jobs = two(require="", work_s=[4800.0, 4800.0, 80.0])
    waiting = [each for each in "abc" if each not in [job.job_id for job in running]]
    with pytest.raises(BetimesError, match=why):
        betimes.simulate(jobs, "srtf", state=ClusterState(50.0, running, waiting), **options)
