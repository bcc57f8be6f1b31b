"""Rented machines in the twin: a cluster's offers as the core's terms, the machines' draws, and the bill."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from betimes.cluster import Cluster, Offer, Spot
from betimes.cluster.billing import leases_usd
from betimes.cluster.draws import draw
from betimes.cluster.labels import mask
from betimes.cluster.resources import whole_capacity
from betimes.core.nodes.columns import AUTO, NEVER, NOW, Lease, NodesState, Terms
from betimes.core.nodes.machines.rented import FAILED
from betimes.core.pool.columns import UNLIMITED
from betimes.errors import ClusterError, InputError
from betimes.kernels import Records, as_array, blank
from betimes.outcome import LeaseColumns
from betimes.twin.nodes.tasks import Tasks
from betimes.workload import Workload

RENT = "rent"
"""The column of a trace with the choice whether to rent a machine for a job alone."""

CHOICES = {"auto": AUTO, "never": NEVER, "now": NOW}

FATES = 256
"""Machines of an offer with draws made ahead."""

COPIED = ("serial", "requested_s", "booted_s", "up_s", "ended_s", "idle_s", "task_s", "cause", "job")
"""The columns of a lease that are the core's."""


def terms_of(cluster: Cluster, bits: Mapping[tuple[str, str], int] | None = None) -> Records[Terms]:
    """The offers as the core knows them; bits: of the labels that jobs require."""
    terms = blank(Terms, len(cluster.offers))
    for one, offer in zip(as_array(terms), cluster.offers, strict=True):
        one.gpu, one.cpu, one.memory = whole_capacity(offer.amounts).tolist()
        one.family = cluster.families.index(offer.family)
        one.usd_per_h = offer.charged_usd_per_h
        one.boot_s, one.setup_s, one.release_s = offer.boot_s, offer.setup_s, offer.release_s
        one.min_bill_s, one.bill_step_s = offer.min_bill_s, offer.bill_step_s
        one.from_request = int(offer.bill_from == "request")
        one.capacity = UNLIMITED if offer.capacity is None else offer.capacity
        one.notice_s = offer.notice_s
        one.drawn = int(_is_drawn(offer))
        one.spot = int(offer.spot is not None)
        one.labels = mask(offer.labels, bits or {})
    return terms


def choices_of(jobs: Workload) -> NDArray[np.int64]:
    """(jobs,) whether a machine may be rented for each job alone, of the column `rent`: auto, never or now.

    Raises InputError for anything else.
    """
    if RENT not in jobs.extra:
        return np.full(len(jobs), AUTO)
    said = [str(choice) for choice in jobs.extra[RENT].tolist()]
    for job_id, choice in zip(jobs.job_id.tolist(), said, strict=True):
        if choice not in CHOICES:
            raise InputError(f"job {job_id}, field {RENT}: expected auto, never or now, found {choice}")
    return np.array([CHOICES[choice] for choice in said], dtype=np.int64)


def with_spot(cluster: Cluster) -> Cluster:
    """The same cluster with each offer on demand also as a spot machine, `TYPE.spot`."""
    spot = [
        replace(offer, type=f"{offer.type}.spot", family=offer.family, spot=Spot())
        for offer in cluster.offers
        if offer.spot is None
    ]
    return replace(cluster, offers=(*cluster.offers, *spot))


def check_alone(cluster: Cluster, jobs: Workload, tasks: Tasks, foresees: bool) -> int:
    """Refuse offers under which dedicated machines cannot be simulated; returns the most that a job may need.

    jobs: those that `tasks` does not refuse. foresees: earlier rents become known only later. Raises ClusterError.
    """
    most = 1
    if foresees and cluster.quota is not None:
        raise ClusterError(f"cluster {cluster.name}, field quota: {_LOOKS_BACK}")
    for offer in cluster.offers:
        where = f"cluster {cluster.name}, offer {offer.type}, field"
        if offer.usd_per_h == 0.0:
            raise ClusterError(
                f"{where} usd_per_h: expected a price above 0 where renting is to be weighed, found 0"
            )
        if offer.boot_failure_frac == 1.0:
            raise ClusterError(
                f"{where} boot_failure_frac: with 1 no machine would ever boot; give less than 1"
            )
        if offer.speeds:
            raise ClusterError(
                f"{where} speeds: a machine that is rented for one job alone runs it as an owned one does; leave them "
                "out, or choose a policy that packs, such as eva"
            )
        if foresees and offer.capacity is not None:
            raise ClusterError(f"{where} capacity: {_LOOKS_BACK}")
        if not _is_drawn(offer):
            continue
        there = whole_capacity(offer.amounts)
        needs = tasks.needs(cluster.families.index(offer.family))[~tasks.refused]
        count = np.max(-(-needs // np.maximum(there, 1)) * (there > 0), axis=1, initial=1)
        most = max(most, int(count.max(initial=1)))
        alone = count == 1
        for name in ("boot_sigma", "boot_failure_frac"):
            if getattr(offer, name) > 0.0 and not alone.all():
                row = int(np.argmin(alone))
                raise ClusterError(
                    f"{where} {name}: job {jobs.job_id[row]} needs {count[row]} of them at once, and the "
                    "simulation boots those together; leave the field out, or offer only machines that hold a whole job"
                )
    return most


_LOOKS_BACK = (
    "does not go with waits=oracle, which decides afterwards which jobs have rented; leave the field out, or choose "
    "waits=none"
)


def fates_of(cluster: Cluster, together: int = 1) -> int:
    """The number of machines of each offer to make room for: none where nothing is left to chance.

    together: the most that are rented at once.
    """
    return max(FATES, 2 * together) if any(_is_drawn(offer) for offer in cluster.offers) else 0


def draw_ahead(state: NodesState, cluster: Cluster) -> None:
    """Draw the fates of the next machines of every offer that leaves anything to chance."""
    width = len(state.fates) // max(1, len(cluster.offers))
    for at, offer in enumerate(cluster.offers):
        terms = state.offers[at]
        if terms.drawn:
            for serial in range(int(terms.known), int(terms.asked) + width):
                fate, found = state.fates[at * width + serial % width], draw(offer, cluster.seed, serial)
                fate.boot_s, fate.fails, fate.age_s = found.boot_s, int(found.fails), found.age_s
            terms.known = terms.asked + width


def leases(cluster: Cluster, ended: Sequence[NDArray[Any]], state: NodesState) -> LeaseColumns:
    """Every machine that was rented, in order of request, those that are still there included, with its exact bill."""
    return billed(cluster, np.concatenate([*ended, present(state)]))


def billed(cluster: Cluster, rows: NDArray[Any]) -> LeaseColumns:
    """Leases, in order of request, with their exact bills."""
    rows = rows[np.lexsort((rows["node"], rows["requested_s"]))]
    row = np.repeat(np.arange(len(rows)), rows["count"])
    usd, offer = np.zeros(len(rows)), rows["offer"]
    for at, offered in enumerate(cluster.offers):
        of = np.flatnonzero(offer == at)
        since = rows["requested_s" if offered.bill_from == "request" else "booted_s"][of]
        since = np.where(rows["cause"][of] == FAILED, math.inf, since)  # which costs nothing
        usd[of] = leases_usd(offered.billing, offered.prices, since, rows["ended_s"][of])
    columns = {name: rows[name][row] for name in COPIED}
    columns["serial"] += np.arange(len(row)) - np.searchsorted(row, row)
    types = np.array([each.type for each in cluster.offers], dtype=np.str_)
    return LeaseColumns(instance_type=types[offer[row]], **columns, cost_usd=usd[row])


def present(state: NodesState) -> NDArray[Any]:
    """Leases that have not ended, as if they did now."""
    now_s = float(state.pool[0].now)
    machines = as_array(state.machines)
    numbers = np.flatnonzero(machines["offer"] >= 0).tolist()
    found = as_array(blank(Lease, len(numbers)))
    for one, number in zip(found, numbers, strict=True):
        machine = state.machines[number]
        one["node"], one["job"], one["ended_s"], one["cause"], one["count"] = number, -1, now_s, -1, 1
        for name in ("offer", "serial", "generation", "requested_s", "booted_s", "up_s", "idle_s", "task_s"):
            one[name] = getattr(machine, name)
        if machine.residents < 0 and machine.up_s < math.inf:
            one["idle_s"] += now_s - machine.empty_s
    return found


def _is_drawn(offer: Offer) -> bool:
    return offer.boot_sigma > 0.0 or offer.boot_failure_frac > 0.0 or offer.spot is not None
