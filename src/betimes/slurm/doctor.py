"""What can be read of an existing Slurm, what of it is mirrored, what is not, and what follows from that."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from betimes.errors import SlurmError
from betimes.printing import printable
from betimes.slurm.commands import Commands
from betimes.slurm.machines import Counts, Machines
from betimes.slurm.picture import MOST_SKEW_S, Looks, Picture
from betimes.slurm.queue import POLICY, Queue, queue_of
from betimes.units import length

SLOW_S = 2.0
"""A look that takes longer is made less often."""
TRIED = ("22.05",)
"""The versions of Slurm with which this was tried."""
DAY_S = 86400.0


class Check(NamedTuple):
    """The outcome of one check; ok is false where it lets no job be promised anything."""

    check: str
    ok: bool
    text: str


def examine(commands: Commands) -> list[Check]:
    """All checks, as far as Slurm answers."""
    looks = Looks(commands)
    try:
        picture = looks.look()
        machines = looks.machines(picture)
    except SlurmError as error:
        return [Check("slurmctld", False, f"{error}; no job can be promised anything until that is mended")]
    found = [_of_slurm(picture, machines, commands)]
    counts: Counts | None = None
    try:
        counts = looks.counts()
    except SlurmError as error:
        found.append(Check("counts", True, f"{error}; whether all jobs are seen cannot be counted"))
    found += _of_clock(picture, counts)
    found.append(sight(picture, machines, counts))
    try:
        queue = queue_of(picture, machines)
    except SlurmError as error:
        found.append(Check("nodes", False, str(error)))
    else:
        found += [_of_nodes(machines), *_of_jobs(picture, queue)]
    found.append(Check("mirrored", True, f"{_MIRRORED}; planned as {POLICY}"))
    found += [Check("not mirrored", True, text) for text in not_mirrored(machines)]
    found.append(_of_history(commands, machines, picture.at))
    return found


def sight(picture: Picture, machines: Machines, counts: Counts | None) -> Check:
    """Whether all jobs are seen: if not, none can be promised anything, as others are ahead unseen."""
    follows = "so no job can be promised anything; let an operator of Slurm run this, or another who sees all"
    hidden = 0 if counts is None else picture.hidden(counts, machines)
    seen = len(picture.waiting) + len(picture.running)
    if hidden:
        return Check("sight", False, f"{hidden} of {seen + hidden} jobs are hidden from this user, {follows}")
    is_counted = counts is not None and not math.isnan(counts.as_of_at)
    if machines.hides_jobs and not is_counted:
        return Check("sight", False, f"PrivateData hides the jobs of others, {follows}")
    note = "; PrivateData hides them from other users, who see their own alone in a service that watches"
    return Check("sight", True, f"all {seen} jobs are seen{note if machines.hides_jobs else ''}")


def not_mirrored(machines: Machines) -> Iterator[str]:
    """The settings that are not modelled, and what follows from each, a sentence each."""
    for applies, text in _NOT_MIRRORED:
        if applies(machines):
            yield text


def _of_slurm(picture: Picture, machines: Machines, commands: Commands) -> Check:
    of_controller = machines.settings.get("SLURM_VERSION", "")
    try:
        version = commands.version().split()[-1:]
    except SlurmError:
        version = []
    text = f"Slurm {printable(of_controller) or 'of an unknown version'}, answers in {picture.took_s * 1000.0:,.0f} ms"
    if version and of_controller and version[0] != of_controller:
        text += f"; the commands here are of {printable(version[0])}"
    if not of_controller.startswith(TRIED):
        text += f"; tried with {', '.join(TRIED)}: rows that are not understood are counted and left out"
    if picture.took_s > SLOW_S:
        text += "; that is slow, so that it is asked less often"
    return Check("slurmctld", True, text)


def _of_clock(picture: Picture, counts: Counts | None) -> list[Check]:
    skew_s = 0.0 if counts is None else counts.now_at - picture.at - picture.took_s
    if abs(skew_s) <= MOST_SKEW_S:
        return []
    ahead = "ahead of" if skew_s > 0 else "behind"
    return [
        Check(
            "clock",
            True,
            f"slurmctld's clock is {length(abs(skew_s))} {ahead} this machine's: set one of them",
        )
    ]


def _of_nodes(machines: Machines) -> Check:
    nodes = machines.nodes.values()
    closed = [node for node in nodes if not node.is_open]
    text = f"{len(nodes)} with {sum(node.cpus for node in nodes):,} CPUs, in {_named(machines)}"
    if closed:
        states = Counter(node.state.partition("*")[0].lower() for node in closed)
        shown = ", ".join(f"{count} {printable(state)[:30]}" for state, count in states.most_common(3))
        text += f"; {len(closed)} take{'s' if len(closed) == 1 else ''} no jobs now ({shown})"
    if machines.not_understood:
        row = printable(machines.not_understood[0])[:60]
        text += f"; {len(machines.not_understood)} lines of scontrol are not understood, such as {row!r}"
    return Check("nodes", True, text)


def _named(machines: Machines) -> str:
    names = [printable(name) for name in machines.partitions]
    more = "" if len(names) <= 5 else f" and {len(names) - 5} more"
    return f"{len(names)} partition{'' if len(names) == 1 else 's'} ({', '.join(names[:5])}{more})"


def _of_jobs(picture: Picture, queue: Queue) -> Iterator[Check]:
    yield Check("jobs", True, f"{len(picture.running)} run and {len(picture.waiting)} wait")
    if (strange := picture.strange) is not None:
        yield Check("jobs", True, strange)
    if queue.unforeseen:
        count, reasons = len(queue.unforeseen), Counter(queue.unforeseen.values())
        shown = "; ".join(f"{alike}: {why}" for why, alike in reasons.most_common(6))
        yield Check(
            "jobs", True, f"{count} of them {'is' if count == 1 else 'are'} promised nothing ({shown})"
        )


def _of_history(commands: Commands, machines: Machines, now_at: float) -> Check:
    first = "run times are learned from what is seen from now on, and the first promises have no interval"
    if machines.settings.get("AccountingStorageType", "").endswith("none"):
        return Check("history", True, f"Slurm keeps no accounting; {first}")
    try:
        jobs = commands.history(now_at - DAY_S).count("\n") - 1
    except SlurmError as error:
        return Check("history", True, f"{error}; {first}")
    return Check(
        "history",
        True,
        f"sacct shows {max(0, jobs):,} jobs of the last day, from which run times are learned",
    )


def _has(setting: str, pattern: str) -> Callable[[Machines], bool]:
    return lambda machines: re.search(pattern, machines.settings.get(setting, ""), re.IGNORECASE) is not None


_MIRRORED = (
    "jobs that run, where they run; those that wait, in the order of tier and priority, with their limits; partitions, "
    "also where they overlap; whole nodes"
)
_SET = r"^(?!\(null\)$|none$|N/A$).+"
_NOT_MIRRORED: tuple[tuple[Callable[[Machines], bool], str], ...] = (
    (
        lambda machines: any(node.gres for node in machines.nodes.values()),
        "GPUs and other generic resources: jobs that wait for some are promised nothing, and are in nobody's way",
    ),
    (
        _has("SelectTypeParameters", "memory"),
        "memory: jobs share nodes by CPUs alone here, so that one that needs much memory may start later than promised",
    ),
    (
        _has("AccountingStorageEnforce", "limits|qos"),
        "limits of accounts and QOS: jobs that wait for one are promised nothing, and others may reach one later",
    ),
    (
        _has("PriorityType", "multifactor"),
        "priorities that change with age and fair share: the order is that of now",
    ),
    (
        _has("PreemptType", r"^(?!preempt/none).+"),
        "preemption: jobs in partitions that may be preempted are promised nothing",
    ),
    (_has("Licenses", _SET), "licences: jobs that wait for some are promised nothing"),
    (
        _has("SuspendProgram", _SET),
        "nodes that are powered down: they take no jobs here, so that jobs may start earlier",
    ),
    (_has("FederationParameters", _SET), "federations: this cluster's jobs alone are seen"),
    (_has("SchedulerType", "builtin"), "a queue without backfilling: jobs may start later than promised"),
    (
        lambda machines: any(each.is_oversubscribed for each in machines.partitions.values()),
        "partitions that share CPUs between jobs: jobs without CPUs of their own are promised nothing",
    ),
    (
        lambda machines: bool(machines.reservations),
        "reservations: until they begin their nodes count as free, so that jobs may start later than promised",
    ),
)
