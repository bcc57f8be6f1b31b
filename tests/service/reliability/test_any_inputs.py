"""Whatever is asked of the service, in whatever order: its books are right, and come back from the log."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from betimes.errors import InputError
from betimes.service.scheduling.job_states import Status
from betimes.service.scheduling.node import BOOTING
from betimes.service.spec.job_changes import JobChanges
from tests.service.reliability.cluster import Cluster, machine, spec

POOL = ("fifo", "srsf", "max-min", "las", "wfq:thresholds=20+100,weights=3/5+3/10+1/10", "afs", "themis")
NODES = ("nodes:fifo", "fitgpp", "easy", "conservative")
SEATS = {"seat": 2}
WIDTHS = (
    {"max_units": 1},
    {"max_units": 1},
    {"max_units": 2},
    {"max_units": 2, "units_per_task": "spread"},
    {"max_units": 3},
    {"max_units": 4, "units_per_task": 2},
    {"max_units": 5, "cpu": 1 / 3},  # three fit on a core only where they are together
)


def play(
    cluster: Cluster,
    seed: int,
    steps: int,
    policies: tuple[str, ...],
    sets: bool = False,
    stands_by: bool = False,
) -> None:
    draw = random.Random(seed)
    extra = 0
    for _ in range(steps):
        jobs = list(cluster.ledger.jobs)
        some = draw.choice(jobs) if jobs else 0
        nodes = list(cluster.ledger.nodes)
        cluster.arrive(cluster.now_at + 0.001)  # as time never stands still
        # Several things may have happened when the policy is asked.
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            kind = draw.randrange(24)
            if kind < 6:
                asked = spec(
                    draw.choice((0.5, 3.0, 10.0, 40.0)),
                    draw.choice((0, 0, 0, 1)),
                    **draw.choice(WIDTHS),
                    qos=draw.choice(("trial", "best-effort")),
                    grace_s=draw.choice((0.0, 1.0, 5.0)),
                    retries=draw.choice((0, 1, 2)),
                    backoff_s=draw.choice((0.0, 2.0)),
                    estimate_s=draw.choice((None, None, 1.0, 10.0, 30.0)),
                    time_limit_s=draw.choice((None, None, 8.0)),
                    after=[f"{some}:{draw.choice(('ok', 'any'))}"] if some and draw.random() < 0.2 else [],
                    array=draw.choice((None, None, None, "1-3%1", "0-4%2")),
                    resources=draw.choice(({}, {}, {"seat": 1}, {"seat": 2})) if not sets else {},
                )
                if sets and draw.random() < 0.6:
                    array = draw.choice(("1-4", "1-6%2", "0-7"))
                    asked = asked.model_copy(
                        update={"array": array, "as_one": True, "max_units": 1, "units_per_task": "pack"}
                    )
                cluster.ask("admission.submit", asked, draw.choice(("ann", "bob")))
            elif kind < 8 and some:
                cluster.ask("jobs.cancel", some, "ann")
            elif kind < 9 and some:
                cluster.ask("jobs.hold", some, "ann")
            elif kind < 10:
                held = [n for n, job in cluster.ledger.jobs.items() if job.status is Status.HELD]
                if held:
                    cluster.ask("jobs.release", draw.choice(held), "ann")
            elif kind < 12:
                cluster.ask("policy.set_policy", draw.choice(policies), "ann")
            elif kind < 13:
                cluster.ask(
                    "nodes.set_status", draw.choice(nodes), draw.choice(("draining", "up")), "user:ann"
                )
            elif kind < 14:
                if sum(node.is_there for node in cluster.ledger.nodes.values()) > 1:
                    cluster.ask("nodes.set_status", draw.choice(nodes), "lost", "timer")
            elif kind < 15 and extra < 3:
                extra += 1
                cluster.ask("nodes.add", machine(f"x-{extra}", draw.choice((1.0, 2.0))), "user:ann")
            elif kind < 17 and some:
                job = cluster.ledger.jobs.get(some)
                if job is not None and job.run is not None:
                    done = draw.uniform(0.0, 100.0)
                    cluster.ask("reports.progressed", some, job.run.number, done, 100.0)
            elif kind < 18 and some in cluster.ledger.jobs:
                cluster.promise(some)
            elif kind < 19:
                cluster.arrive(cluster.now_at + draw.choice((0.0, 0.1, 1.0)))
            elif kind < 20:
                _rent(cluster, draw)
            elif kind < 21 and some:
                cluster.ask("jobs.requeue_run", some, "ann")
            elif kind < 22 and some:
                cluster.ask(draw.choice(("jobs.suspend", "jobs.resume")), some, "ann")
            elif some:
                edit(cluster, draw, some)
        cluster.turn()
        what = draw.randrange(10)
        if what == 0:
            lose_world = draw.random() < 0.3
            cluster.crash(lose_world, is_compiled=not stands_by or draw.random() < 0.2)
        elif what == 1:
            cluster.snapshot()
        elif what < 7:
            cluster.go_on(draw.choice((0.0, 0.5, 3.0, 20.0)))
        elif what == 7 and cluster.scheduler.stands_by:
            cluster.take_over()
    cluster.take_over()
    for number in [n for n, job in cluster.ledger.jobs.items() if job.status is Status.HELD]:
        cluster.ask("jobs.release", number, "ann")
    for number in list(cluster.ledger.jobs):
        cluster.ask("jobs.resume", number, "ann")
    for name in list(cluster.ledger.nodes):
        cluster.ask("nodes.set_status", name, "up", "user:ann")
    cluster.turn()
    cluster.go_on()
    left = {number: job.status for number, job in cluster.ledger.jobs.items()}
    most = max(node.capacity[1] // 1000 for node in cluster.ledger.nodes.values())
    total = sum(node.capacity[1] // 1000 for node in cluster.ledger.nodes.values())
    assert not left, (left, most, total)


def edit(cluster: Cluster, draw: random.Random, number: int) -> None:
    other = draw.choice(list(cluster.ledger.jobs))
    changes: list[dict[str, Any]] = [
        {"estimate_s": draw.choice((1.0, 25.0))},
        {"time_limit_s": draw.choice((6.0, 60.0))},
        {"priority": draw.choice((-1, 1)), "name": "other"},
        {"min_units": 1, "max_units": draw.choice((1, 2))},
        {"cpu": draw.choice((0.5, 1.0))},
        {"after": draw.choice(([], [f"{other}:any"]))},
        {"begin_at": draw.choice((0.0, cluster.now_at + 5.0))},
    ]
    cluster.ask("edits.edit", [number], JobChanges(**draw.choice(changes)), "ann")


def _rent(cluster: Cluster, draw: random.Random) -> None:
    """Something happens at a cloud: a node is asked for, or one that is rented boots, does not, or is taken away."""
    rented = {name: node for name, node in cluster.ledger.nodes.items() if node.rented_at is not None}
    if len(rented) < 2 and draw.random() < 0.5:
        number = cluster.ledger.rented.get("r", 0)
        new = replace(machine(f"r-{number}", draw.choice((1.0, 2.0))), kind="fake-cloud")
        cluster.ask("nodes.rent", [new], "user:ann")
    elif rented:
        name = draw.choice(list(rented))
        if rented[name].status != BOOTING:
            cluster.ask("nodes.reclaimed", name, cluster.now_at)
        elif draw.random() < 0.7:
            cluster.ask("nodes.set_status", name, "up", "cloud")
        else:
            cluster.ask("nodes.never_booted", name, cluster.now_at)


@pytest.mark.parametrize("policies", [POOL, NODES, POOL + NODES], ids=["pool", "nodes", "both"])
@pytest.mark.parametrize("seed", range(4))
def test_the_books_are_right_whatever_happens(seed: int, policies: tuple[str, ...]) -> None:
    play(Cluster(policies[seed % len(policies)], resources=SEATS), seed, 12, policies)


@pytest.mark.slow
@pytest.mark.parametrize("policies", [POOL, NODES, POOL + NODES], ids=["pool", "nodes", "both"])
@pytest.mark.parametrize("seed", range(100, 108))
def test_the_books_are_right_for_longer(seed: int, policies: tuple[str, ...]) -> None:
    play(Cluster(policies[seed % len(policies)], resources=SEATS), seed, 20, policies)


def test_what_is_refused_changes_nothing() -> None:
    cluster = Cluster()
    before = cluster.ledger.next_event
    with pytest.raises(InputError):
        cluster.scheduler.admission.submit(spec(after=["99"]), "ann")
    assert cluster.ledger.next_event == before


@pytest.mark.parametrize("seed", range(4))
def test_the_books_of_sets_are_right_whatever_happens(seed: int) -> None:
    play(Cluster(POOL[seed % len(POOL)]), seed, 12, POOL + NODES, sets=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
def test_the_books_of_sets_are_right_for_longer(seed: int) -> None:
    play(Cluster(POOL[seed % len(POOL)]), seed, 20, POOL + NODES, sets=True)


@pytest.mark.parametrize("policies", [POOL, NODES, POOL + NODES], ids=["pool", "nodes", "both"])
def test_the_books_are_right_while_a_policy_is_being_compiled(policies: tuple[str, ...]) -> None:
    play(Cluster(policies[1], resources=SEATS), 51, 20, policies, stands_by=True)
    if policies is not NODES:
        play(Cluster(policies[1]), 51, 12, policies, sets=True, stands_by=True)


@pytest.mark.slow
@pytest.mark.parametrize("policies", [POOL, NODES, POOL + NODES], ids=["pool", "nodes", "both"])
@pytest.mark.parametrize("seed", [200])
def test_the_books_are_right_for_longer_while_a_policy_is_being_compiled(
    seed: int, policies: tuple[str, ...]
) -> None:
    play(
        Cluster(policies[seed % len(policies)], resources=SEATS),
        seed,
        40,
        policies,
        sets=policies is POOL,
        stands_by=True,
    )
