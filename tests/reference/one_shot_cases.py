"""The specification's worked cases of single decisions (T3, T4, T5) and of the heuristics (T8), as data.

All in fractional mode, as published.
"""

from dataclasses import dataclass
from fractions import Fraction

from tests.reference.model import Job, Number


@dataclass(frozen=True)
class OneShot:
    """All jobs have just arrived, in this order, at one instant; the units each is given."""

    name: str
    jobs: tuple[Job, ...]
    units: int
    policy: str
    grants: tuple[Number, ...]
    fractional: bool = True


# --- T3: single decisions ---

CURVE_S = (0, 1, 1.8, 2.4, 2.8, 3.0, 3.1)
THREE_JOBS = (Job(0, 60, 6, speedup=CURVE_S), Job(0, 60, 6), Job(0, 30, 3, speedup=CURVE_S[:4]))
ONE_CLASS = "wfq:weights=1,zeta_min=0.75,delta=0.1"
T3_GRANTS: dict[str, dict[int, tuple[Number, ...]]] = {
    "fifo": {3: (3, 0, 0), 6: (6, 0, 0), 8: (6, 2, 0), 10: (6, 4, 0), 12: (6, 6, 0)},
    "srsf": {3: (0, 0, 3), 6: (0, 3, 3), 8: (0, 5, 3), 10: (1, 6, 3), 12: (3, 6, 3)},
    "afs": {3: (1, 1, 1), 6: (2, 2, 2), 8: (2, 3, 3), 10: (3, 4, 3), 12: (3, 6, 3)},
    "max-min": {
        3: (1, 1, 1),
        6: (2, 2, 2),
        8: (Fraction(8, 3), Fraction(8, 3), Fraction(8, 3)),
        10: (Fraction("3.5"), Fraction("3.5"), 3),
        12: (Fraction("4.5"), Fraction("4.5"), 3),
    },
    ONE_CLASS: {
        3: (3, 0, 0),
        6: (3, 3, 0),
        8: (3, 5, 0),
        10: (3, 6, 1),
        12: (3, 6, 3),
        13: (4, 6, 3),
        14: (5, 6, 3),
        15: (6, 6, 3),
    },
}
T3 = tuple(
    OneShot(f"T3-{policy.partition(':')[0]}-{units}", THREE_JOBS, units, policy, grants)
    for policy, by_units in T3_GRANTS.items()
    for units, grants in by_units.items()
)
# With zeta 0.8 the first job's cap is 2 and not 3, since 2.4/3 < 0.8 in binary floating point.
T3_BINARY_CAP = OneShot("T3-binary-cap", THREE_JOBS, 3, "wfq:weights=1,zeta_min=0.8,delta=0.1", (2, 1, 0))

# --- T4: caps by efficiency ---

CURVE_N = (0, 1, 1.9, 2.1, 3.6)
TWO_JOBS = (Job(0, 60, 4, speedup=CURVE_N), Job(0, 60, 4))
T4A_GRANTS: dict[int, tuple[Number, ...]] = {4: (2, 2), 5: (2, 3), 6: (2, 4), 7: (4, 3), 8: (4, 4)}


def from_efficiencies(*efficiencies: float) -> tuple[float, ...]:
    return (0, *(units * efficiency for units, efficiency in enumerate(efficiencies, start=1)))


RELAXED_JOBS = (
    Job(0, 60, 8, speedup=from_efficiencies(1, 0.991, 0.854, 0.905, 0.803, 0.750, 0.732, 0.743)),
    Job(0, 60, 4, speedup=from_efficiencies(1, 0.910, 0.797, 0.869)),
    Job(0, 60, 8, speedup=from_efficiencies(1, 0.745, 0.535, 0.435, 0.352, 0.297, 0.258, 0.228)),
)
T4B_GRANTS: dict[int, tuple[Number, ...]] = {
    4: (2, 2, 0),
    7: (5, 2, 0),
    8: (5, 2, 1),
    10: (8, 2, 0),
    12: (8, 4, 0),
    16: (8, 4, 4),
}
T4 = (
    *(
        OneShot(f"T4a-{units}", TWO_JOBS, units, "wfq:weights=1,zeta_min=0.8,delta=0.2", grants)
        for units, grants in T4A_GRANTS.items()
    ),
    # "Largest k" gives the first job all four units at once.
    OneShot("T4a-largest", TWO_JOBS, 6, "wfq:weights=1,zeta_min=0.8,delta=0.2,cap=largest", (4, 2)),
    *(
        OneShot(f"T4b-{units}", RELAXED_JOBS, units, "wfq:weights=1,zeta_min=0.9,delta=0.1", grants)
        for units, grants in T4B_GRANTS.items()
    ),
)

# --- T5: shares of the classes ---

T5 = (
    OneShot(
        "T5-three-classes",
        (Job(0, 1, 2), Job(0, 10, 20), Job(0, 100, 20)),
        10,
        "wfq:thresholds=1+10,weights=1/2+3/10+1/5,zeta_min=0,delta=0.1",
        (2, Fraction("4.8"), Fraction("3.2")),
    ),
    OneShot(
        "T5-two-classes",
        (Job(0, 1, 1), Job(0, 10, 2), Job(0, 10, 2), Job(0, 10, 2)),
        4,
        "wfq:thresholds=1,weights=5/8+3/8,zeta_min=0,delta=0.1",
        (1, 2, 1, 0),
    ),
)

ONE_SHOT = (*T3, T3_BINARY_CAP, *T4, *T5)

# --- T8: thresholds from T, weights from W ---

EIGHT_SIZES = (1, 2, 3, 10, 11, 50, 100, 1000)
T8_LARGEST_PREFIX_VARIATION = 4.848343606464602
# sizes, T, limits without the infinite last one; as published
T8_THRESHOLDS: tuple[tuple[tuple[float, ...], float, tuple[float, ...]], ...] = (
    (EIGHT_SIZES, 5, ()),
    (EIGHT_SIZES, 0.5, (3, 100)),
    (EIGHT_SIZES, 0.25, (3, 11, 100)),
    (EIGHT_SIZES, 0.05, (1, 3, 11, 100)),
    ((10, 10, 10.9, 100, 100.5, 400), 0.3, (10, 100)),
)
# W, classes, weights; None: infeasible
T8_WEIGHTS: tuple[tuple[float, int, tuple[Fraction, ...] | None], ...] = (
    (0, 3, (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))),
    (1, 2, (Fraction(731, 1000), Fraction(269, 1000))),
    (1, 3, (Fraction(133, 200), Fraction(49, 200), Fraction(9, 100))),
    (2.5, 3, (Fraction(34, 37), Fraction(25, 333), Fraction(2, 333))),
    (3, 3, (Fraction(950, 999), Fraction(47, 999), Fraction(2, 999))),
    (-0.67, 3, (Fraction(148, 1001), Fraction(289, 1001), Fraction(564, 1001))),
    (0.5, 4, (Fraction(91, 200), Fraction(69, 250), Fraction(167, 1000), Fraction(51, 500))),
    (3, 4, None),
)
