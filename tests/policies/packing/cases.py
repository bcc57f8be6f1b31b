"""The types and tasks of the worked cases, and problems drawn at random."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from hypothesis import strategies as st

from betimes.cluster import Offer, read_cluster
from betimes.policies.packing.catalogue import Catalogue, Demand
from betimes.policies.packing.plan import Plan
from betimes.policies.packing.problem import Machine, Problem, Task
from betimes.policies.packing.throughput import ThroughputTable

TABLE_3 = Catalogue.of(
    [
        Offer(type="it1", family="it", gpu=4, cpu=16, memory_gib=244, usd_per_h=12.0),
        Offer(type="it2", family="it", gpu=1, cpu=4, memory_gib=61, usd_per_h=3.0),
        Offer(type="it3", family="it", gpu=0, cpu=8, memory_gib=32, usd_per_h=0.8),
        Offer(type="it4", family="it", gpu=0, cpu=4, memory_gib=16, usd_per_h=0.4),
    ]
)
T1, T2, T3, T4 = (2, 8, 24), (1, 4, 10), (0, 6, 20), (0, 4, 12)
NAMED = {"t1": T1, "t2": T2, "t3": T3, "t4": T4, "n": T2, "a": T2, "b": T2}

# The catalogue of the published benchmark, in its order: two_node_Resnet18 needs what resnet18 needs.
TABLE_7 = ("a3c", "cyclegan", "gcn", "gpt2", "openfoam", "sage", "seq", "resnet18", "vit", "resnet18")
CPU_ONLY = {"gcn": (12, 6, 40), "a3c": (10, 4, 8), "seq": (14, 8, 16), "openfoam": (8, 6, 8)}
GPU = {
    "resnet18": (1, 4, 24),
    "vit": (2, 8, 60),
    "cyclegan": (1, 4, 10),
    "gpt2": (4, 4, 10),
    "sage": (1, 8, 50),
}


def problem(
    names: Sequence[str],
    on: Mapping[str, int] | None = None,
    machines: Iterable[tuple[int, str]] = (),
    jobs: Mapping[str, int] | None = None,
    pinned: Sequence[str] = (),
) -> Problem:
    """Tasks of Table 3 by their names, each a kind and a job of its own but for `jobs`."""
    return Problem(
        TABLE_3,
        tuple(
            Task(
                number,
                (jobs or {}).get(name, number),
                name,
                Demand.of(NAMED[name]),
                machine=(on or {}).get(name),
                pinned=name in pinned,
            )
            for number, name in enumerate(names)
        ),
        tuple(Machine(*each) for each in machines),
    )


def shape(plan: Plan, tasks: Problem) -> set[tuple[str, tuple[str, ...], int | None]]:
    """(type, names of tasks, machine) of every bin."""
    return {
        (each.type, tuple(sorted(tasks.task[task].kind for task in each.tasks)), each.machine)
        for each in plan.bins
    }


def table(default: float, pairs: Mapping[tuple[str, str], float] | None = None) -> ThroughputTable:
    made = ThroughputTable(default)
    for (kind, other), value in (pairs or {}).items():
        made.observe(kind, [other], value)
    return made


@cache
def ec2(name: str = "ec2-2023") -> Catalogue:
    return Catalogue.of(read_cluster(name).offers)


def published_demands() -> dict[str, Demand]:
    demands = {name: Demand.of(needs) for name, needs in GPU.items()}
    for name, (cpu, own, memory) in CPU_ONLY.items():
        on_cpus = (0, own, memory)
        demands[name] = Demand.of({"p3": (0, cpu, memory), "c7i": on_cpus, "r7i": on_cpus})
    return demands


def published_tasks(count: int, seed: int) -> Problem:
    """`count` tasks drawn as for Table 4, all waiting."""
    draw, demands = random.Random(seed), published_demands()
    names = [draw.choice(TABLE_7) for _ in range(count)]
    return Problem(ec2(), tuple(Task(n, n, name, demands[name]) for n, name in enumerate(names)))


DEMANDS = [(2, 8, 24), (1, 4, 10), (1, 2, 30), (0, 6, 20), (0, 4, 12), (0, 4, 16), (0, 1, 2), (4, 1, 1)]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Small problems in which everything occurs: jobs of several tasks, families, machines, pinned and equal tasks."""
    kinds = draw(st.integers(1, 4))
    by_kind = [draw(st.sampled_from(DEMANDS)) for _ in range(kinds)]
    machines = [
        Machine(
            100 + n, draw(st.sampled_from(["it1", "it1", "it2", "it3", "it4"])), draw(st.integers(0, 4)) > 0
        )
        for n in range(draw(st.integers(0, 4)))
    ]
    free = {m.id: list(TABLE_3.named(m.type).capacity) for m in machines}
    tasks: list[Task] = []
    for job in range(draw(st.integers(1, 9))):
        for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
            k = draw(st.integers(0, kinds - 1))
            demand = Demand.of(by_kind[k])
            needs = demand.on("it")
            assert needs is not None
            fitting = [m for m, left in free.items() if all(n <= q for n, q in zip(needs, left, strict=True))]
            machine = draw(st.sampled_from([None, *fitting]))
            if machine is not None:
                free[machine] = [q - n for q, n in zip(free[machine], needs, strict=True)]
            pinned = machine is not None and draw(st.integers(0, 4)) == 0
            tasks.append(Task(len(tasks), job, f"k{k}", demand, machine, pinned))
    return Problem(TABLE_3, tuple(tasks), tuple(machines))


@st.composite
def tables(draw: st.DrawFn) -> ThroughputTable:
    """Tables with recorded pairs, combinations of three, and, as means, kinds alone."""
    value = st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.8, 0.87, 0.9, 0.95, 1.0])
    made = ThroughputTable(
        draw(st.sampled_from([1.0, 0.95, 0.9, 0.8])), draw(st.sampled_from(["mean", "lower-bound", "fitted"]))
    )
    kind = st.sampled_from(["k0", "k1", "k2", "k3"])
    for _ in range(draw(st.integers(0, 8))):
        others = draw(st.lists(kind, min_size=0, max_size=3))
        made.observe(draw(kind), others, max(0.6, draw(value)) if not others else draw(value))
    return made
