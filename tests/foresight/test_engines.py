"""Which engine runs a policy, from Python, and what each refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import betimes
from betimes.cluster import Offer
from betimes.errors import BetimesError, InputError, PolicyError
from betimes.foresight.engines import engine_for, engines_of
from betimes.outcome import JobState
from betimes.policies import parse_nodes_policy, parse_policy
from betimes.workload import Workload

CLUSTER = betimes.Cluster.uniform(2, gpu=4.0, cpu=8.0, memory_gib=64.0, name="two")


def jobs(**columns: Any) -> Workload:
    return Workload.from_columns(
        **{"submit_s": [0.0, 1.0], "work_s": [4.0, 4.0], "max_units": [2, 2], "machine_units": 4, **columns}
    )


def test_the_engine_is_named_or_follows_from_the_policy() -> None:
    assert engine_for("fifo") == engine_for("pool:fifo", prefers_nodes=True) == "pool"
    assert engine_for("fifo", "nodes") == engine_for("easy") == engine_for("nodes:fifo") == "nodes"
    assert (
        engine_for("fifo", prefers_nodes=True)
        == engine_for("fifo", nodes_because="it is for nodes")
        == "nodes"
    )
    assert engine_for("srsf", prefers_nodes=True) == engine_for("srsf", "pool", "it is for nodes") == "pool"
    assert engine_for(parse_nodes_policy("fifo:placement=first")) == "nodes"
    assert engine_for(parse_policy("fifo")) == "pool"
    assert engines_of("fifo") == ("pool", "nodes")


@pytest.mark.parametrize(
    ("policy", "engine", "because", "message"),
    [
        ("srsf", "auto", "the jobs are for nodes", "policy srsf is for a pool, but the jobs are for nodes"),
        ("easy", "pool", "", "policy easy is for nodes, but --engine pool is given; choose among fifo, srsf"),
        ("nodes:fifo", "pool", "", "policy nodes:fifo: --engine pool is given too; leave one of them out"),
        ("nodes:srsf", "auto", "", "policy nodes:srsf: there is no srsf for nodes"),
        ("fifo", "both", "", "--engine both: choose auto, pool, nodes"),
        ("essy", "auto", "", "unknown policy 'essy' (did you mean 'easy'?)"),
        ("./nowhere.py:mine", "auto", "", "policy file ./nowhere.py: there is no such file"),
    ],
)
def test_what_is_at_odds_is_named(policy: str, engine: str, because: str, message: str) -> None:
    with pytest.raises(BetimesError) as caught:
        engine_for(policy, engine, because)
    assert str(caught.value).startswith(message)


def test_a_users_policy_is_for_the_engine_of_its_decorator(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from betimes.policies import priority\n"
        "from betimes.policies.nodes.hooks import eviction\n"
        "@priority(summary='in order')\n"
        "def one(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        key[k] = 0.0\n"
        "@eviction(summary='anybody')\n"
        "def other(view, now, slot, draw, chosen, score):\n"
        "    for k in range(len(chosen)):\n"
        "        score[k] = 0.0\n"
    )
    assert engines_of(f"{file}:one") == ("pool",)
    assert engines_of(f"{file}:other:P=2") == ("nodes",)
    with pytest.raises(PolicyError, match="'third' is not a policy"):
        engines_of(f"{file}:third")


def test_where_jobs_run_from_python() -> None:
    on_cluster = betimes.simulate(jobs(), "easy", cluster=CLUSTER)
    assert [each.name for each in on_cluster.resources] == ["gpu", "cpu", "memory_gib"]
    assert on_cluster.resources[0].held_s == 8.0  # what a unit needs is not known: one GPU
    on_units = betimes.simulate(jobs(), "easy", units=2)
    assert [(each.name, each.total) for each in on_units.resources] == [("cpu", 2.0)]
    assert betimes.simulate(jobs(), "easy").resources[0].total == 4.0  # the traced machine
    on_nodes = betimes.simulate(jobs(), "nodes:fifo", units=2)
    assert on_nodes.resources == betimes.simulate(jobs(), "fifo", engine="nodes", units=2).resources != ()
    assert betimes.simulate(jobs(), "fifo", units=2).resources == ()
    with pytest.raises(InputError, match="does not say how large its machine is; give --cluster"):
        betimes.simulate(jobs(machine_units=None), "easy")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "easy", "fractional": True}, "--fractional: jobs on nodes are never resized"),
        ({"policy": "easy", "fair": True}, "--fair: there is no max-min run on nodes"),
        ({"policy": "easy", "units": 2, "cluster": CLUSTER}, "--cluster two: --units 2 is given too"),
        (
            {"policy": "easy", "on_wide": "clip"},
            "--on-wide clip: jobs on nodes are never narrowed; choose drop",
        ),
        ({"policy": "easy", "overrun": "forgive"}, "--overrun forgive: choose extend or kill"),
        ({"policy": "easy", "resize_gain": True}, "--resize-gain: jobs on nodes are never resized"),
        ({"policy": "easy", "resize_interval_s": 3.0}, "--resize-interval: jobs on nodes are never resized"),
        ({"policy": "srsf", "overrun": "kill"}, "--overrun kill: on a pool estimates do not end jobs"),
        (
            {"policy": "srsf", "cluster": CLUSTER, "engine": "pool", "units": 2},
            "--cluster two: --units 2 is given too",
        ),
        (
            {"policy": "srsf", "cluster": CLUSTER, "engine": "pool", "fractional": True},
            "--fractional: units on nodes are whole",
        ),
        (
            {"policy": "srsf", "units": 2, "resize_gain": True, "fractional": True},
            "--fractional: resizes are held back in whole",
        ),
        (
            {"policy": "srsf", "resize_interval_s": -1.0},
            "--resize-interval -1: the time between resizes is a number of seconds",
        ),
    ],
)
def test_options_of_the_other_engine_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BetimesError, match=message):
        betimes.simulate(jobs(), **options)


def test_jobs_that_no_node_can_run_are_counted_or_an_error() -> None:
    workload = jobs(gpu=[5.0, 1.0])
    notes: list[str] = []
    result = betimes.simulate(workload, "easy", cluster=CLUSTER, warn=notes.append)
    assert result.jobs.state.tolist() == [JobState.REFUSED, JobState.FINISHED]
    assert len(notes) == 1
    assert "job 0, field gpu: a unit asks for 5 GPUs, the largest node has 4" in notes[0]
    with pytest.raises(
        BetimesError, match="job 0, field gpu: a unit asks for 5 GPUs, the largest node has 4"
    ):
        betimes.simulate(workload, "easy", cluster=CLUSTER, on_wide="refuse")


def test_machines_on_offer_count_where_the_policy_rents() -> None:
    offers = (Offer(type="big", cpu=8.0, gpu=6.0, memory_gib=64.0, usd_per_h=1.0),)
    mixed = replace(CLUSTER, offers=offers)
    workload = jobs(gpu=[5.0, 1.0])
    result = betimes.simulate(workload, "njw", cluster=mixed, on_wide="refuse")
    assert result.jobs.state.tolist() == [JobState.FINISHED] * 2
    with pytest.raises(
        BetimesError, match="job 0, field gpu: a unit asks for 5 GPUs, the largest node has 4"
    ):
        betimes.simulate(workload, "easy", cluster=mixed, on_wide="refuse")
    with pytest.raises(
        BetimesError, match=r"field gpu: a unit asks for 7 GPUs, the largest node has 6.*1 such job"
    ):
        betimes.simulate(jobs(gpu=[7.0, 1.0]), "njw", cluster=mixed, on_wide="refuse")
