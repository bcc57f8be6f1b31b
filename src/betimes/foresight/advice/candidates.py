"""The policies that fit some machines and jobs: the one place where that is decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from betimes.cluster import Cluster
from betimes.foresight.advice.record import LeftOut
from betimes.workload import Workload
from betimes.workload.family_demands import family_of_column

QUEUES = (
    "nodes:fifo",
    "skip-over",
    "easy",
    "sjf:backfill=easy",
    "slowdown:backfill=easy",
    "wfp3:backfill=easy",
    "unicef:backfill=easy",
    "wfq-order:backfill=easy",
)
MAKING_ROOM = ("fitgpp", "youngest")
BY_PRIORITY = ("lowest-priority",)
ELASTIC = ("pool:fifo", "srsf", "las", "max-min", "afs", "themis")
WAITING = (
    "njw",
    "ajw",
    "ajw-t",
    "ljw:lengths=estimate",
    "sww:waits=simulated",
    "compound:lengths=estimate,waits=simulated",
)
PROVISIONING = ("oda", "odb", "ode", "odm", "odx")
PACKING = ("eva",)
UNLIKE = ("wfq:heterogeneous=yes",)
IN_TURN = ("portfolio:members=easy+sjf/backfill=easy+wfp3/backfill=easy",)
SLOW = ("conservative",)
"""Each group is simulated in this order, `SLOW` and `IN_TURN` last, so that the slow ones take the time that is left.

Left out everywhere: baselines (`no-packing`, `consolidation`, `srtf`), orders that serve no one (`ljf`, `widest`),
`slurm`, which says what Slurm will do, and `wfq` on a pool, whose settings `betimes tune` searches for.
"""


class Candidates(NamedTuple):
    """The policies that fit, and those that do not, with the reason."""

    policies: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def candidates(workload: Workload, cluster: Cluster | None, more: Sequence[str] = ()) -> Candidates:
    """The policies to try for these jobs on this cluster, a pool where it is None; more: some that are known to fit."""
    offers = cluster is not None and bool(cluster.offers)
    owned = cluster is None or len(cluster) > 0
    families = () if cluster is None else cluster.families
    labels = bool((workload.require != "").any())
    by_family = any(family_of_column(name) is not None for name in workload.extra)
    elastic = bool((workload.min_units < workload.max_units).any())
    found, left_out = [*more], list[LeftOut]()

    def fits(policies: Sequence[str], *reasons: tuple[bool, str]) -> None:
        why = next((reason for holds, reason in reasons if holds), None)
        if why is None:
            found.extend(policy for policy in policies if policy not in found)
        elif rest := tuple(policy for policy in policies if policy not in found):
            left_out.append(LeftOut(policies=rest, why=why))

    no_nodes = (not owned, "no machine is owned, and they rent none")
    no_offers = (not offers, "no machines are on offer")
    fits(QUEUES, no_nodes)
    fits(MAKING_ROOM, no_nodes, (not (workload.qos == 1).any(), "no job is a trial"))
    fits(BY_PRIORITY, no_nodes, (len(set(workload.priority.tolist())) < 2, "all jobs have one priority"))
    fits(
        ELASTIC,
        no_nodes,
        (not elastic, "they change the widths of jobs, and every job here has only one"),
        (labels, "they choose no nodes by labels, which jobs require"),
        (by_family, "what jobs need depends on the family of a machine"),
    )
    fits(WAITING, no_offers, (not owned, "no machine is owned to wait for"))
    fits(PROVISIONING, no_offers)
    planned = (labels, "they pack by amounts alone, and jobs require labels")
    fits(UNLIKE, (len(families) < 2, "all machines are of one family"), planned)
    fits(SLOW, no_nodes)
    fits(PACKING, no_offers, planned)
    fits(IN_TURN, no_nodes)
    return Candidates(tuple(found), tuple(left_out))
