"""A user's hooks for nodes that write where they should not, or not where they should: an error, and no harm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from betimes import Result, Workload, simulate
from betimes.cluster import Cluster
from betimes.errors import PolicyError, PolicyViolation
from betimes.kernels import INTERPRETED

MISBEHAVING = '''
"""Hooks for nodes that do what they should not."""

from betimes.policies import Parameter, kernel
from betimes.policies.nodes.hooks import eviction, ordering, placement

HOW = (Parameter("how", "which way", 0.0),)


@placement(summary="Writes into what it is asked about.", parameters=HOW)
def elsewhere(view, nodes, slot, fitting, score):
    for k in range(len(fitting)):
        score[k] = float(fitting[k])
        if view.params[0] == 1.0:
            fitting[k] = 99
        elif view.params[0] == 2.0:
            fitting[k] = 50_000_000


@placement(summary="Puts a whole node over another.")
def copied(view, nodes, slot, fitting, score):
    for k in range(len(fitting)):
        score[k] = float(fitting[k])
    for k in range(len(nodes)):
        if nodes[k].free_gpu == nodes[k].gpu:
            for other in range(len(nodes)):
                nodes[other] = nodes[k]


@placement(summary="Has more room than there is.")
def roomy(view, nodes, slot, fitting, score):
    for k in range(len(fitting)):
        score[k] = 0.0
        nodes[fitting[k]].free_gpu = 10**9


@kernel
def enlarge(node):
    node.free_gpu = 10**9


@placement(summary="Lets somebody else do it.")
def roomy_by_proxy(view, nodes, slot, fitting, score):
    for k in range(len(fitting)):
        score[k] = 0.0
        enlarge(nodes[fitting[k]])


@placement(summary="Answers half of what it is asked.")
def half(view, nodes, slot, fitting, score):
    for k in range(len(fitting) // 2):
        score[k] = 0.0


@ordering(summary="Needs nothing.")
def needless(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = 0.0
        view.needs[chosen[k]].gpu = 0


@ordering(summary="Writes nothing.", parameters=HOW)
def silent(view, now, chosen, key):
    if now >= 2.0 * view.params[0]:
        return
    for k in range(len(chosen)):
        key[k] = 0.0


@ordering(summary="Writes nothing, at every pass.", dynamic=True)
def silent_always(view, now, chosen, key):
    for k in range(len(chosen) - 1):
        key[k] = 0.0


@ordering(summary="Writes too far.", dynamic=True)
def too_far(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = 0.0
    key[len(chosen) + 5] = 1.0


@ordering(summary="Ranks somebody else.", dynamic=True)
def other_slots(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = float(view.jobs[chosen[k]].submit_s)
        chosen[k] = 0


@eviction(summary="Chooses others.", parameters=HOW)
def others(view, now, slot, draw, chosen, score):
    for k in range(len(chosen)):
        if view.params[0] < 2.0 or k > 0:
            score[k] = float(view.jobs[chosen[k]].submit_s)
        if view.params[0] == 1.0:
            chosen[k] = chosen[0]
'''
CLUSTER = Cluster.uniform(4, gpu=8, cpu=16)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MISBEHAVING)
    return file


def jobs(trials: float = 0.0) -> Workload:
    rng = np.random.default_rng(1)
    return Workload.from_columns(
        submit_s=np.arange(60.0),
        work_s=rng.integers(10, 60, 60).astype(float),
        gpu=rng.integers(1, 6, 60).astype(float),
        cpu=1.0,
        memory_gib=0.0,
        qos=(rng.random(60) < trials).astype(int),
    )


def most_gpus(result: Result) -> float:
    """The most that were held at any time."""
    gpu = jobs().gpu
    start_s, finish_s = result.jobs.start_s, result.jobs.finish_s
    return max(float(gpu[(start_s <= at) & (at < finish_s)].sum()) for at in start_s)


@pytest.mark.parametrize("backfill", ["strict", "conservative"])
def test_what_a_placement_is_asked_about_is_a_copy(mine: Path, backfill: str) -> None:
    expected = simulate(
        jobs(),
        "fifo:placement=first" if backfill == "strict" else "conservative:placement=first",
        cluster=CLUSTER,
    )
    for how in (0, 1, 2):
        found = simulate(jobs(), f"{mine}:elsewhere:how={how},backfill={backfill}", cluster=CLUSTER)
        assert np.array_equal(found.jobs.start_s, expected.jobs.start_s)


@pytest.mark.parametrize("name", ["roomy", "roomy_by_proxy", "needless"])
def test_a_hook_that_sets_a_field_is_refused_before_it_runs(mine: Path, name: str) -> None:
    if name == "roomy_by_proxy" and INTERPRETED:
        pytest.skip("nothing tells a kernel from any other function there")
    with pytest.raises(PolicyError, match=rf"policy {name}: mine\.py, line \d+, \w+ writes"):
        simulate(jobs(), f"{mine}:{name}", cluster=CLUSTER)


@pytest.mark.parametrize("policy", ["copied", "copied:backfill=easy", "copied:backfill=conservative"])
def test_nobody_gets_what_is_not_there(mine: Path, policy: str) -> None:
    assert most_gpus(simulate(jobs(), f"{mine}:{policy}", cluster=CLUSTER)) <= 32


@pytest.mark.parametrize(
    ("policy", "what"),
    [
        ("half", "a score that is not a number, or none"),
        ("half:backfill=easy", "a score that is not a number, or none"),
        ("half:backfill=conservative", "a score that is not a number, or none"),
        ("silent", "a key that is not a number, or with none"),
        ("silent:how=5", "a key that is not a number, or with none"),
        ("silent_always", "a key that is not a number, or with none"),
        ("too_far", "IndexError"),
        ("others:how=2", "a score that is not a number, or none"),
    ],
)
def test_an_answer_that_is_left_out_or_too_long_is_refused(mine: Path, policy: str, what: str) -> None:
    with pytest.raises(PolicyViolation, match=rf"policy .*{policy}.* at .*s.*{what}"):
        simulate(jobs(trials=0.3), f"{mine}:{policy}", cluster=CLUSTER)


def test_what_an_order_is_asked_about_is_a_copy(mine: Path) -> None:
    expected = simulate(jobs(), "skip-over", cluster=CLUSTER)
    found = simulate(jobs(), f"{mine}:other_slots:backfill=skip-over", cluster=CLUSTER)
    assert np.array_equal(found.jobs.start_s, expected.jobs.start_s)


def test_whom_an_eviction_is_asked_about_is_a_copy(mine: Path) -> None:
    plain, writing = (
        simulate(jobs(trials=0.3), f"{mine}:others:how={how}", cluster=CLUSTER) for how in (0, 1)
    )
    assert plain.jobs.preemptions.sum() > 0
    assert np.array_equal(plain.jobs.start_s, writing.jobs.start_s)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("@ordering(summary='x', foo=3)", "@ordering: there is no 'foo'; it takes summary, name"),
        ("@placement(summary='x', dynamic=True)", "@placement: there is no 'dynamic'"),
        ("@eviction()", "@eviction: say in one sentence what it does"),
        ("@priority(name='x')", "@priority: say in one sentence what it does"),
        ("@allocation(summary='x', spreads=True)", "@allocation: there is no 'spreads'"),
        (
            "@ordering(summary='x', parameters=(Parameter('a', '', 2.0, high=1.0),))",
            "parameter a: the default 2 is not from -inf to 1",
        ),
        (
            "@priority(summary='x', parameters=(Parameter('a', '', 'c', choices=('d', 'e')),))",
            "parameter a: the default 'c' is none of its choices, d, e",
        ),
    ],
)
def test_a_declaration_that_means_nothing_is_refused(tmp_path: Path, source: str, what: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from betimes.policies import Parameter, allocation, priority\n"
        "from betimes.policies.nodes.hooks import eviction, ordering, placement\n"
        f"{source}\ndef hook(*all):\n    pass\n"
    )
    with pytest.raises(PolicyError) as caught:
        simulate(jobs(), f"{file}:hook", cluster=CLUSTER)
    assert "mine.py" in str(caught.value)
    assert what in str(caught.value)


def test_a_file_without_the_hook_says_what_it_has(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("x = 1\n")
    with pytest.raises(PolicyError, match="@ordering, @placement or @eviction for nodes"):
        simulate(jobs(), f"{file}:hook", cluster=CLUSTER)
    file.write_text(
        "from betimes.policies.nodes.hooks import ordering\n"
        "@ordering(summary='x')\ndef mine(view, now, chosen, key):\n    key[0] = {}['no such thing']\n"
    )
    with pytest.raises(PolicyError, match="it has mine"):
        simulate(jobs(), f"{file}:hook", cluster=CLUSTER)
    if not INTERPRETED:
        with pytest.raises(PolicyError, match=r"mine\.py, line 2, mine\) does not compile"):
            simulate(jobs(), f"{file}:mine", cluster=CLUSTER)
