"""A machine that comes or goes costs a live turn little, however many jobs wait.

The scheduler alone, without HTTP and disk; a turn is everything from the input to events and effects. Machines of four
cores are full and as many jobs wait as the table says. Rented by the policy (`odb`): at each step a machine is taken
away with the jobs on it, which wait again; then the policy's tick orders another, the cloud gives it out, and it comes
up and takes jobs. Added by the operator, who also drains one (`nodes:fifo`, and `srsf` for a pool): as large as the
others, or larger than all (`large`), so that all jobs that wait, each of four units, are split into other tasks.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from measuring import Table, introduce

from betimes.cluster import Offer
from betimes.service.engines.named_policies import compile_policy
from betimes.service.machines.machine import Machine
from betimes.service.scheduling.effects import OrderMachine
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.ledger import Ledger
from betimes.service.scheduling.node import UP, Node
from betimes.service.scheduling.scheduler import Scheduler
from betimes.service.spec.job_spec import JobSpec

CORES, GIB, MACHINES = 4.0, 16.0, 150
TICK_S = 20.0
TYPE = "c4"


LARGER = 8 * CORES


def machine(name: str, cores: float = CORES) -> Machine:
    return Machine(name, "virtual", TYPE, cores, cores * GIB / CORES, 0.0)


class Crowd:
    """A scheduler with full machines and so many jobs that wait."""

    def __init__(self, policy: str, queued: int, *, rents: bool, units: int = 1, cores: float = 1.0) -> None:
        self.units, self.cores = units, cores
        offer = Offer(
            type=TYPE, cpu=CORES, gpu=0.0, memory_gib=GIB, usd_per_h=0.2, boot_s=1.0, capacity=MACHINES
        )
        settings = Settings(offers=(offer,), quota=MACHINES) if rents else Settings()
        self.scheduler = Scheduler(Ledger(), lambda _: None, settings)
        self.number, self.now_s = 0, 0.0
        self.orders: list[OrderMachine] = []
        self.took: dict[str, list[float]] = {}
        self.scheduler.begin(0.0)
        for _ in range(1 if rents else MACHINES):
            self.scheduler.nodes.add(machine(self._name("own")), "operator")
        self.scheduler.open(policy, 0.0)
        self._turn()
        self._submit(queued + int((MACHINES + 1) * CORES / (units * cores)))
        for _ in range(3 if rents else 0):
            self.tick()
        assert sum(node.status == UP for node in self.nodes.values()) >= MACHINES, "machines did not come up"
        assert sum(not job.units for job in self.scheduler.ledger.jobs.values()) >= queued, (
            "too few jobs wait"
        )
        self.took = {}

    @property
    def nodes(self) -> dict[str, Node]:
        """By their names."""
        return self.scheduler.ledger.nodes

    def tick(self) -> None:
        """Time goes on to the policy's next tick; what it orders is given out, and comes up."""
        self.now_s += TICK_S
        self.timed("tick", lambda: None)
        orders, self.orders = self.orders, []
        for order in orders:
            name = self._name("c4")
            asked_at, rentals = self.scheduler.now_at, self.scheduler.machines
            self.timed("given out", lambda: rentals.given_out(order.move, machine(name), asked_at))  # noqa: B023
            self.timed("up", lambda: self.scheduler.nodes.set_status(name, UP, "cloud"))  # noqa: B023

    def timed(self, what: str, happens: Callable[[], object]) -> None:
        """One turn, and how long it takes."""
        began = time.process_time()
        self.scheduler.begin(self.now_s)
        happens()
        self._turn()
        self.took.setdefault(what, []).append(1000.0 * (time.process_time() - began))

    def _turn(self) -> None:
        self.scheduler.turn()
        effects = self.scheduler.take().effects
        self.orders += [effect for effect in effects if isinstance(effect, OrderMachine)]

    def _submit(self, count: int) -> None:
        for at in range(count):
            spec = JobSpec(
                command=["x"],
                workdir="/",
                name=f"job-{at % 50}",
                estimate_s=360_000.0 + at % 977,
                cpu=self.cores,
                memory_gib=(at % 7) / 8,
                min_units=self.units,
                max_units=self.units,
            )
            self.scheduler.admission.submit(spec, "ann")
            if at % 200 == 199 or at == count - 1:
                self._turn()

    def _name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}-{self.number}"


def rented(queued: int, count: int, policy: str) -> dict[str, list[float]]:
    """Machines that the policy rents are taken away, and come again."""
    crowd = Crowd(policy, queued, rents=True)
    for _ in range(count):
        oldest = next(name for name, node in crowd.nodes.items() if node.by_policy)
        crowd.timed("taken away", lambda: crowd.scheduler.nodes.reclaimed(oldest, crowd.now_s))  # noqa: B023
        crowd.tick()
    return crowd.took


def owned(queued: int, count: int, policy: str) -> dict[str, list[float]]:
    """Nodes that the operator adds and drains."""
    crowd = Crowd(policy, queued, rents=False)
    for at in range(count):
        crowd.now_s += 1.0
        name = f"new-{at}"
        crowd.timed("added", lambda: crowd.scheduler.nodes.add(machine(name), "operator"))  # noqa: B023
        crowd.timed("drains", lambda: crowd.scheduler.nodes.set_status(name, "draining", "operator"))  # noqa: B023
    return crowd.took


def larger(queued: int, count: int, policy: str) -> dict[str, list[float]]:
    """Nodes that are larger than all others, for which jobs are split into fewer tasks; they come and are gone."""
    crowd = Crowd(policy, queued, rents=False, units=4, cores=1.5)
    for at in range(count):
        crowd.now_s += 1.0
        name = f"new-{at}"
        crowd.timed("large, added", lambda: crowd.scheduler.nodes.add(machine(name, LARGER), "operator"))  # noqa: B023
        crowd.timed("large, is gone", lambda: crowd.scheduler.nodes.left(name))  # noqa: B023
    return crowd.took


def main() -> None:
    """Print how long turns take."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a look in seconds; not a measurement")
    chosen = parser.parse_args()
    queues, count = ((100, 1000), 10) if chosen.quick else ((100, 1000, 10_000), 200)
    introduce(__doc__)
    print("CPU time of the process.\n")
    table = Table("a turn, CPU ms", *(f"{which} of {size:,}" for size in queues for which in ("p50", "p99")))
    for policy, measured in (
        ("odb", rented),
        ("nodes:fifo", owned),
        ("nodes:fifo", larger),
        ("srsf", owned),
    ):
        compile_policy(policy)
        found = [measured(size, count if measured is rented else count // 5, policy) for size in queues]
        for what in found[0]:
            figures: list[float] = []
            for took in found:
                figures += [statistics.median(took[what]), statistics.quantiles(took[what], n=100)[98]]
            table.line(f"{policy}: {what}", *figures)


if __name__ == "__main__":
    main()
