"""Cases for the rules that go beyond the published simulator, each worked out by hand.

Whole units, minimums, restarts, attained service with a quantum, sizes that are only believed.
"""

from fractions import Fraction

from tests.reference.cases import Dynamic
from tests.reference.model import Job
from tests.reference.one_shot_cases import THREE_JOBS, OneShot

HALVES = "wfq:thresholds=5,weights=1/2+1/2,zeta_min=0,delta=0.1"
MIXED_MINIMUMS = (Job(0, 60, 4), Job(0, 60, 4, min_units=3), Job(0, 60, 4))

OWN_ONE_SHOT = (
    # Max-min in whole units: rounds of one unit, in order of arrival.
    OneShot("max-min-3", THREE_JOBS, 3, "max-min", (1, 1, 1), fractional=False),
    OneShot("max-min-8", THREE_JOBS, 8, "max-min", (3, 3, 2), fractional=False),
    OneShot("max-min-10", THREE_JOBS, 10, "max-min", (4, 3, 3), fractional=False),
    OneShot("max-min-12", THREE_JOBS, 12, "max-min", (5, 4, 3), fractional=False),
    # A first step of three; that job then waits until the others have come up to it.
    OneShot("max-min-minimum-3", MIXED_MINIMUMS, 3, "max-min", (2, 0, 1), fractional=False),
    OneShot("max-min-minimum-6", MIXED_MINIMUMS, 6, "max-min", (2, 3, 1), fractional=False),
    OneShot("max-min-minimum-8", MIXED_MINIMUMS, 8, "max-min", (3, 3, 2), fractional=False),
    # Shares of 7/3: of the two that cannot use theirs, the later drops out, and the others share.
    OneShot(
        "max-min-fraction-later-drops-out",
        (Job(0, 60, 4), Job(0, 60, 4, min_units=3), Job(0, 60, 4, min_units=3)),
        7,
        "max-min",
        (Fraction(7, 2), Fraction(7, 2), 0),
    ),
    # Shares 1, 2, 2: the last drops out; then 1, 4: the second drops out; what is left suffices for the last.
    OneShot(
        "max-min-fraction-minimum",
        (Job(0, 60, 1), Job(0, 60, 5, min_units=5), Job(0, 60, 3, min_units=3)),
        5,
        "max-min",
        (1, 0, 3),
    ),
    OneShot(
        "fifo-minimum",
        (Job(0, 60, 3, min_units=2), Job(0, 60, 4, min_units=2), Job(0, 60, 1)),
        4,
        "fifo",
        (3, 0, 1),
        fractional=False,
    ),
    # rho of the second is the largest once one unit is left, but it needs two.
    OneShot(
        "themis-minimum",
        (Job(0, 10, 2), Job(0, 10, 2, min_units=2), Job(0, 10, 1)),
        3,
        "themis:lease=5",
        (2, 0, 1),
        fractional=False,
    ),
    OneShot(
        "afs-minimum-3",
        (Job(0, 60, 4, min_units=2), Job(0, 60, 4)),
        3,
        "afs",
        (2, 1),
        fractional=False,
    ),
    # As fast on its two as the other on one: the other is served, and one unit is too little for the first.
    OneShot(
        "afs-minimum-2",
        (Job(0, 60, 4, min_units=2), Job(0, 30, 4)),
        2,
        "afs",
        (0, 2),
        fractional=False,
    ),
    # Shares 2, 4.8, 3.2.
    OneShot(
        "wfq-largest-remainder",
        (Job(0, 1, 2), Job(0, 10, 20), Job(0, 100, 20)),
        10,
        "wfq:thresholds=1+10,weights=1/2+3/10+1/5,zeta_min=0,delta=0.1",
        (2, 5, 3),
        fractional=False,
    ),
    # Shares 1.5, 1.5: the earlier class gets the odd unit, whoever arrived first.
    OneShot("wfq-tie", (Job(0, 10, 4), Job(0, 1, 4)), 3, HALVES, (1, 2), fractional=False),
    # Shares 2, 2: a class that cannot use its own leaves it to the other ...
    OneShot(
        "wfq-unused",
        (Job(0, 1, 4, min_units=4), Job(0, 10, 4)),
        4,
        HALVES,
        (0, 4),
        fractional=False,
    ),
    # ... and what no class can use by itself is offered, together, in order of the classes.
    OneShot(
        "wfq-pooled",
        (Job(0, 10, 3, min_units=3), Job(0, 1, 4, min_units=4)),
        4,
        HALVES,
        (0, 4),
        fractional=False,
    ),
    # No cap goes below what a job needs to run at all: efficiency on four units is 0.7.
    OneShot(
        "wfq-rigid-below-cap",
        (Job(0, 60, 4, min_units=4, speedup=(0, 1, 1.9, 2.4, 2.8)), Job(0, 60, 4)),
        4,
        "wfq:weights=1,zeta_min=0.8,delta=0.1",
        (4, 0),
        fractional=False,
    ),
)

OWN_DYNAMIC = (
    Dynamic(
        name="minimum-is-waited-for",
        jobs=(Job(0, 6, 3, min_units=2), Job(0, 8, 4, min_units=4), Job(0, 2, 1)),
        units=4,
        policy="fifo",
        fractional=False,
        finish=(2, 4, 2),
        segments=((0, 0, 2, 3), (2, 0, 2, 1), (1, 2, 4, 4)),
    ),
    Dynamic(
        name="resumed-job-stalls",
        jobs=(Job(0, 10), Job(3, 4)),
        units=1,
        policy="srsf",
        fractional=False,
        restart_s=2,
        finish=(16, 7),
        predictions={0: (10, 16), 1: (7,)},
        preemptions=(1, 0),
        resizes=(0, 0),
        restart_lost_s=(2, 0),
        segments=((0, 0, 3, 1), (1, 3, 7, 1), (0, 7, 16, 1)),
    ),
    Dynamic(
        name="resized-job-stalls",
        jobs=(Job(0, 4), Job(0, 12, 2)),
        units=2,
        policy="fifo",
        fractional=False,
        restart_s=1,
        finish=(4, 9),
        predicted=(4, 9),
        preemptions=(0, 0),
        resizes=(0, 1),
        restart_lost_s=(0, 1),
        segments=((0, 0, 4, 1), (1, 0, 4, 1), (1, 4, 9, 2)),
    ),
    Dynamic(
        name="change-during-a-stall-stalls-anew",
        jobs=(Job(0, 4), Job(0, 5), Job(0, 12, 3)),
        units=3,
        policy="fifo",
        fractional=False,
        restart_s=2,
        finish=(4, 5, Fraction(29, 3)),
        preemptions=(0, 0, 0),
        resizes=(0, 0, 2),
        restart_lost_s=(0, 0, 3),
    ),
    Dynamic(
        name="two-changes-at-one-instant-are-one",
        jobs=(Job(0, 4), Job(0, 4), Job(0, 12, 3)),
        units=3,
        policy="fifo",
        fractional=False,
        restart_s=2,
        finish=(4, 4, Fraction(26, 3)),
        resizes=(0, 0, 1),
        restart_lost_s=(0, 0, 2),
    ),
    Dynamic(
        name="change-taken-back-at-one-instant-is-none",
        jobs=(Job(0, 10, 2), Job(0, 4), Job(4, 6)),
        units=2,
        policy="max-min",
        fractional=False,
        restart_s=3,
        finish=(10, 4, 10),
        preemptions=(0, 0, 0),
        resizes=(0, 0, 0),
        restart_lost_s=(0, 0, 0),
        segments=((0, 0, 10, 1), (1, 0, 4, 1), (2, 4, 10, 1)),
    ),
    # The first end gives the second job more units at the instant at which it is done as well.
    Dynamic(
        name="finished-job-does-not-stall",
        jobs=(Job(0, 4, 2), Job(0, 4, 2)),
        units=2,
        policy="max-min",
        fractional=False,
        restart_s=5,
        finish=(4, 4),
        resizes=(0, 0),
        restart_lost_s=(0, 0),
    ),
    Dynamic(
        name="las-quantum",
        jobs=(Job(0, 5), Job(0, 3)),
        units=1,
        policy="las:quantum=2",
        fractional=False,
        finish=(8, 7),
        predictions={0: (5, 8), 1: (7,)},
        contention=((11, 7), (10, 5)),
        preemptions=(2, 1),
        segments=((0, 0, 2, 1), (1, 2, 4, 1), (0, 4, 6, 1), (1, 6, 7, 1), (0, 7, 8, 1)),
    ),
    # Believed 2 and 3. The first outruns at 2 (then 4) and at 4 (then 8), the second at 7 (then 6).
    Dynamic(
        name="outrun-estimates-double",
        jobs=(Job(0, 10, estimate=2), Job(0, 4, estimate=3)),
        units=1,
        policy="srsf",
        fractional=False,
        sizes="estimate",
        finish=(14, 8),
        predictions={0: (2, 2), 1: (5,)},
        contention=((12, 8), (10, 5)),
        preemptions=(1, 0),
        segments=((0, 0, 4, 1), (1, 4, 8, 1), (0, 8, 14, 1)),
    ),
    # Believed 5 and 6: the longer job goes first, and is never outrun.
    Dynamic(
        name="noisy-sizes",
        jobs=(Job(0, 10, factor=Fraction(1, 2)), Job(0, 6)),
        units=1,
        policy="srsf",
        fractional=False,
        sizes="noise",
        finish=(10, 16),
        predictions={0: (5, 5), 1: (11,)},
        contention=((4, 3), (5, 3)),
    ),
)
