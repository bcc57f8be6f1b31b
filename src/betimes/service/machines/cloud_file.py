"""A fake cloud from the offers of a cluster file.

::

    seed = 0                    # of all that is drawn by lot; 0 by default
    quota = 20                  # the most machines held at once; any number by default

    [[offers]]                  # one table an instance type
    type = "a100"
    cpu = 12                    # cores
    memory_gib = 85
    gpu = 1                     # 0 by default
    usd_per_h = 3.67
    capacity = 8                # the most that there are at once; any number by default
    boot_s = 60                 # the median time to boot; 0 by default
    boot_sigma = 0.2            # its spread, of the logarithm; 0 by default
    boot_failure_frac = 0.01    # of machines that never come up; 0 by default
    setup_s = 30                # then, until jobs start on it; 0 by default
    min_bill_s = 60             # the least that is charged for; 0 by default
    bill_step_s = 1             # every second begun in full; 0, to the moment, by default
    notice_s = 120              # from the notice until a machine is taken away; 120 by default
    spot = { price_factor = 0.4, revocation = "exponential", mean_h = 10 }  # false by default
    speeds = { resnet18 = 2.5 } # how fast a job of a workload runs on it; 1 by default
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from betimes.cluster import Cluster
from betimes.cluster.checks import check_amount, file_text
from betimes.cluster.offer import Offer
from betimes.cluster.readers.any_format import cluster_path
from betimes.cluster.readers.toml import check_known, check_table, cluster_of, document, offer_of, tables
from betimes.errors import ClusterError
from betimes.service.machines.fake_cloud import FakeCloud
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import OpenCloud

MOST_RECLAIMS_PER_H = 1e6
_TOP = ("seed", "quota", "types")
_TYPES = (
    *(
        "type",
        "cpu",
        "memory_gib",
        "gpu",
        "usd_per_h",
        "capacity",
        "boot_s",
        "boot_sigma",
        "boot_failure_frac",
    ),
    *("reclaims_per_h", "notice_s"),
)
_NEEDED = ("type", "cpu", "memory_gib")


def read_cloud(path: str | os.PathLike[str]) -> OpenCloud:
    """The made-up cloud of `read_offers`."""
    return cloud_of(read_offers(path))


def read_offers(path: str | os.PathLike[str]) -> Cluster:
    """A cluster file's offers, or those of a catalogue; raises ClusterError, naming file, table and field.

    A file of the form before that, with `[[types]]`, is one too: every second begun is charged for in full.
    """
    path = cluster_path(path)
    found = document(file_text(path), path)
    cluster = _of_types(found, path) if "types" in found else cluster_of(found, path)
    if not cluster.offers:
        raise ClusterError(
            f"{path}, field offers: there is nothing to rent; describe an instance type ([[offers]])"
        )
    for number, offer in enumerate(cluster.offers, 1):
        if offer.price_changes:
            raise ClusterError(
                f"{path}, [[offers]] table {number}, field price_changes: prices change by the file in simulations "
                "only; leave it out for a service"
            )
    return cluster


def cloud_of(cluster: Cluster) -> OpenCloud:
    """The cloud of a cluster's offers."""

    def open_cloud(held: Iterable[tuple[Machine, float]], made: Mapping[str, int]) -> FakeCloud:
        cloud = FakeCloud(cluster.offers, cluster.seed, cluster.quota)
        cloud.resume(held, made)
        return cloud

    return open_cloud


def _of_types(found: dict[str, Any], path: Path) -> Cluster:
    check_known(found, _TOP, f"{path}, field ")
    offers = tuple(_offer(table, where) for table, where in tables(found, "types", _NEEDED, path))
    if not offers:
        raise ClusterError(f"{path}, field types: expected at least one table [[types]]")
    try:
        return Cluster(path.stem, (), offers=offers, quota=found.get("quota"), seed=found.get("seed", 0))
    except ClusterError as error:
        raise ClusterError(f"{path}, {str(error).replace('[[offers]]', '[[types]]')}") from None


def _offer(table: Any, where: str) -> Offer:
    check_table(table, where, "instance type", _TYPES, _NEEDED)
    given = {"usd_per_h": 0.0, "bill_step_s": 1.0} | table
    reclaims_per_h = given.pop("reclaims_per_h", 0.0)
    try:
        check_amount("reclaims_per_h", reclaims_per_h, MOST_RECLAIMS_PER_H)
    except ClusterError as error:
        raise ClusterError(f"{where}, {error}") from None
    if reclaims_per_h > 1e-9:  # less than that is never
        given["spot"] = {"price_factor": 1, "revocation": "exponential", "mean_h": 1.0 / reclaims_per_h}
    return offer_of(given, where)
