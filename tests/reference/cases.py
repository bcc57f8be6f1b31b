"""The worked cases of the specification (section 5) as data, for the reference model and for the real engine.

Every number is the specification's own. Where it prints a rounded figure, the exact one stands here if it is
plain (35/3 for 11.6667), else the figure as printed; compare with a tolerance of 1e-4.
`DYNAMIC` are whole simulations, in fractional mode, as published. Single decisions, thresholds and weights
are in `one_shot_cases`; what the specification does not have (whole units, minimums, restarts, estimates) is
in `own_cases`.
"""

from dataclasses import dataclass
from fractions import Fraction

from tests.reference.model import Job, Number

Grants = dict[int, Number]


@dataclass(frozen=True)
class Dynamic:
    """A simulation and what must come of it, one item a job; None: the specification does not say."""

    name: str
    jobs: tuple[Job, ...]
    units: int
    policy: str
    finish: tuple[Number, ...]
    fractional: bool = True
    restart_s: Number = 0
    sizes: str = "true"
    predicted: tuple[Number, ...] | None = None  # first promises, as instants
    predictions: dict[int, tuple[Number, ...]] | None = None  # some jobs' promises, own and later ones
    error_percent: tuple[Number, ...] | None = None
    mean_jct: Number | None = None
    mean_error_percent: Number | None = None
    contention: tuple[tuple[int, int], ...] | None = None  # sum and count of the samples
    fair_jct: tuple[Number, ...] | None = None  # event-averaged
    mean_unfairness_percent: Number | None = None  # event-averaged
    max_unfairness_percent: Number | None = None
    max_fair_run_unfairness_percent: Number | None = None  # against the max-min run of the same jobs
    preemptions: tuple[int, ...] | None = None
    resizes: tuple[int, ...] | None = None
    restart_lost_s: tuple[Number, ...] | None = None
    segments: tuple[tuple[int, Number, Number, Number], ...] | None = None  # job, start, end, units
    decisions: tuple[tuple[Number, Grants], ...] | None = None  # after every event

    @property
    def jct(self) -> tuple[Number, ...]:
        return tuple(finish - job.submit for job, finish in zip(self.jobs, self.finish, strict=True))


# --- T1 and T2: figure 1 of the paper, one unit ---

FIGURE_1 = (Job(0, 10), Job(0, 8), Job(1, 1), Job(10, 8))
FAIR_RUN_FIGURE_1 = (Fraction("24.5"), Fraction("20.5"), 3, 17)

T1 = (
    Dynamic(
        name="T1-fifo",
        jobs=FIGURE_1,
        units=1,
        policy="fifo",
        finish=(10, 18, 19, 27),
        predicted=(10, 18, 19, 27),
        predictions={0: (10, 10, 10), 1: (18, 18, 18), 2: (19, 19), 3: (27,)},
        error_percent=(0, 0, 0, 0),
        mean_jct=Fraction("15.75"),
        mean_error_percent=0,
        contention=((7, 4), (12, 5), (13, 5), (9, 4)),
        fair_jct=(Fraction("17.5"), Fraction("19.2"), Fraction("2.6"), 18),
        mean_unfairness_percent=Fraction("148.0769"),
        max_unfairness_percent=Fraction("592.3077"),
        max_fair_run_unfairness_percent=500,
    ),
    Dynamic(
        name="T1-srsf",
        jobs=FIGURE_1,
        units=1,
        policy="srsf",
        finish=(27, 9, 2, 18),
        predicted=(10, 8, 2, 18),
        predictions={0: (10, 18, 19, 27)},
        error_percent=(170, Fraction("12.5"), 0, 0),
        mean_jct=Fraction("11.25"),
        mean_error_percent=Fraction("45.625"),
        contention=((13, 8), (9, 4), (6, 2), (4, 2)),
        fair_jct=(Fraction("16.25"), 18, 3, 16),
        max_unfairness_percent=Fraction("66.1538"),
        max_fair_run_unfairness_percent=Fraction("10.2041"),
    ),
    Dynamic(
        name="T1-afs",
        jobs=FIGURE_1,
        units=1,
        policy="afs",
        finish=(27, 9, 2, 18),
        predicted=(10, 8, 2, 18),
        error_percent=(170, Fraction("12.5"), 0, 0),
        mean_jct=Fraction("11.25"),
        mean_error_percent=Fraction("45.625"),
    ),
    Dynamic(
        name="T1-themis",
        jobs=FIGURE_1,
        units=1,
        policy="themis:lease=1",
        finish=(19, 16, 3, 27),
        predicted=(10, 15, 3, 27),
        predictions={0: (10, 18, 19, 19), 1: (15, 16, 16)},
        error_percent=(90, Fraction("6.6667"), 0, 0),
        mean_jct=Fraction("13.5"),
        mean_error_percent=Fraction("24.1667"),
        contention=((52, 23), (46, 19), (9, 3), (35, 18)),
        fair_jct=(Fraction("22.6087"), Fraction("19.3684"), 3, Fraction("15.5556")),
        max_unfairness_percent=Fraction("9.2857"),
        max_fair_run_unfairness_percent=0,
        segments=(
            (0, 0, 2, 1),
            (2, 2, 3, 1),
            (1, 3, 4, 1),
            (0, 4, 5, 1),
            (1, 5, 7, 1),
            (0, 7, 8, 1),
            (1, 8, 9, 1),
            (0, 9, 10, 1),
            (1, 10, 12, 1),
            (0, 12, 13, 1),
            (1, 13, 14, 1),
            (0, 14, 15, 1),
            (1, 15, 16, 1),
            (0, 16, 19, 1),
            (3, 19, 27, 1),
        ),
    ),
    Dynamic(
        name="T1-max-min",
        jobs=FIGURE_1,
        units=1,
        policy="max-min",
        finish=(Fraction("24.5"), Fraction("20.5"), 4, 27),
        predicted=(10, 16, 4, 27),
        error_percent=(145, Fraction("28.125"), 0, 0),
        mean_jct=Fraction("16.25"),
        mean_error_percent=Fraction("43.28125"),
        max_fair_run_unfairness_percent=0,
    ),
    Dynamic(
        name="T1-wfq-halves",
        jobs=FIGURE_1,
        units=1,
        policy="wfq:thresholds=5,weights=1/2+1/2,zeta_min=0,delta=0.1",
        finish=(11, 19, 3, 27),
        predicted=(10, 18, 3, 27),
        error_percent=(10, Fraction("5.5556"), 0, 0),
        mean_jct=Fraction("12.25"),
        mean_error_percent=Fraction("3.8889"),
    ),
    Dynamic(
        name="T1-wfq-quarters",
        jobs=FIGURE_1,
        units=1,
        policy="wfq:thresholds=5,weights=3/4+1/4,zeta_min=0,delta=0.1",
        finish=(11, 19, Fraction(7, 3), 27),
        predicted=(10, 18, Fraction(7, 3), 27),
        error_percent=(10, Fraction("5.5556"), 0, 0),
        mean_jct=Fraction("12.0833"),
        mean_error_percent=Fraction("3.8889"),
    ),
    Dynamic(
        name="T1-wfq-three-classes",
        jobs=FIGURE_1,
        units=1,
        policy="wfq:thresholds=1+8,weights=3/4+3/16+1/16,zeta_min=0,delta=0.1",
        finish=(27, Fraction(35, 3), Fraction(7, 3), Fraction(67, 3)),
        predicted=(10, 10 + Fraction(2, 3), Fraction(7, 3), Fraction(67, 3)),
        error_percent=(170, Fraction("9.375"), 0, 0),
        mean_jct=Fraction("13.0833"),
        mean_error_percent=Fraction("44.84375"),
    ),
)

# Themis when the copy forgets the pending lease: the mistake of the published artifact, to be told apart.
FORGOTTEN_LEASE_PREDICTED = (10, 18, 11, 27)
FORGOTTEN_LEASE_MEAN_ERROR_PERCENT = Fraction("45.2778")

# --- T6: four units, linear ---

FOUR_UNITS = (Job(0, 40, 4), Job(0, 8, 2), Job(2, 4, 1), Job(4, 24, 4), Job(6, 6, 1))
A, B, C, D, E = range(5)


def _from_jcts(*jcts: Number) -> tuple[Number, ...]:
    return tuple(job.submit + jct for job, jct in zip(FOUR_UNITS, jcts, strict=True))


T6 = (
    Dynamic(
        name="T6-fifo",
        jobs=FOUR_UNITS,
        units=4,
        policy="fifo",
        finish=_from_jcts(10, 14, 12, 15, 19),
        predicted=(10, 14, 14, 19, 25),
        mean_jct=14,
        mean_error_percent=0,
        mean_unfairness_percent=Fraction("105.3333"),
        max_unfairness_percent=Fraction("216.6667"),
    ),
    Dynamic(
        name="T6-srsf",
        jobs=FOUR_UNITS,
        units=4,
        policy="srsf",
        finish=_from_jcts(Fraction("20.5"), 4, 4, 8, 6),
        predicted=(10, 4, 6, Fraction("10.5"), 12),
        mean_jct=Fraction("8.5"),
        mean_error_percent=Fraction("25.6154"),
        mean_unfairness_percent=Fraction("0.5"),
        max_unfairness_percent=Fraction("2.5"),
    ),
    Dynamic(
        name="T6-afs",
        jobs=FOUR_UNITS,
        units=4,
        policy="afs",
        finish=_from_jcts(Fraction("20.5"), 4, 4, 12, 6),
        predicted=(10, 4, 6, 16, 12),
        mean_jct=Fraction("9.3"),
        mean_error_percent=21,
        mean_unfairness_percent=Fraction("0.5"),
        max_unfairness_percent=Fraction("2.5"),
    ),
    Dynamic(
        name="T6-themis",
        jobs=FOUR_UNITS,
        units=4,
        policy="themis:lease=5",
        finish=_from_jcts(Fraction("19.5"), 6, 6, Fraction("16.5"), 6),
        predicted=(10, 9, 10, 19, 12),
        mean_jct=Fraction("10.8"),
        mean_error_percent=Fraction("32.6667"),
        mean_unfairness_percent=Fraction("11.8182"),
        max_unfairness_percent=50,
    ),
    Dynamic(
        name="T6-max-min",
        jobs=FOUR_UNITS,
        units=4,
        policy="max-min",
        finish=_from_jcts(Fraction("20.5"), 5, 4, Fraction("14.25"), 6),
        predicted=(10, 4, 6, Fraction("16.75"), 12),
        mean_jct=Fraction("9.95"),
        mean_error_percent=Fraction("28.3529"),
        mean_unfairness_percent=0,
        max_unfairness_percent=0,
    ),
    Dynamic(
        name="T6-wfq",
        jobs=FOUR_UNITS,
        units=4,
        policy="wfq:thresholds=10,weights=3/4+1/4,zeta_min=0.5,delta=0.1",
        finish=_from_jcts(Fraction("14.5"), 4, 4, Fraction("16.5"), 6),
        predicted=(10, 4, 6, 19, 12),
        mean_jct=9,
        mean_error_percent=11,
        mean_unfairness_percent=Fraction("3.5714"),
        max_unfairness_percent=Fraction("17.8571"),
        segments=(
            (A, 0, 2, 2),
            (B, 0, 4, 2),
            (A, 2, 4, 1),
            (C, 2, 6, 1),
            (A, 4, 12, 3),
            (E, 6, 12, 1),
            (A, 12, Fraction("14.5"), 4),
            (D, Fraction("14.5"), Fraction("20.5"), 4),
        ),
        decisions=(
            (0, {A: 4}),
            (0, {A: 2, B: 2}),
            (2, {A: 1, B: 2, C: 1}),
            (4, {A: 3, C: 1}),
            (4, {A: 3, C: 1, D: 0}),
            (6, {A: 4, D: 0}),
            (6, {A: 3, D: 0, E: 1}),
            (12, {A: 4, D: 0}),
            (Fraction("14.5"), {D: 4}),
            (Fraction("20.5"), {}),
        ),
    ),
)

# --- T10: ties ---

TIES = (Job(0, 4), Job(4, 4), Job(4, 2))

T10 = (
    Dynamic(
        name="T10-fifo",
        jobs=TIES,
        units=1,
        policy="fifo",
        finish=(4, 8, 10),
        predicted=(4, 8, 10),
        contention=((2, 2), (4, 3), (5, 3)),
    ),
    Dynamic(
        name="T10-srsf",
        jobs=TIES,
        units=1,
        policy="srsf",
        finish=(4, 10, 6),
        predicted=(4, 8, 6),
        mean_error_percent=Fraction("16.6667"),
    ),
)

DYNAMIC = T1 + T6 + T10
