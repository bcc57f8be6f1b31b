"""Fronts made up for tests."""

from __future__ import annotations

from betimes.foresight.tuning import Baseline, Front, Part, Point

OBJECTIVES = ("jct:avg", "pred_err:avg")
POINTS = ((100.0, 0.5), (120.0, 0.2), (200.0, 0.0))  # mean JCT, mean prediction error
NAMES = (("PCS-JCT",), ("PCS-balanced",), ("PCS-pred",))


def policy(number: int) -> str:
    """The policy of a point."""
    return f"wfq:thresholds={100 * (number + 1)},weights=3/4+1/4,zeta_min=0.5,delta=0.1"


def front(in_force: str = "fifo", points: tuple[tuple[float, float], ...] = POINTS) -> Front:
    """A front of three points, PCS-balanced in the middle, and what fifo brings: 200 s, and no error."""

    def measured(values: tuple[float, float]) -> dict[str, float]:
        return dict(zip(OBJECTIVES, values, strict=True))

    part = Part(
        fingerprint="p", jobs=10, first_job="1", last_job="10", load_frac=0.8, sizes_s=(1.0, 5.0, 9.0)
    )
    return Front(
        objectives=OBJECTIVES,
        units={"jct:avg": "s", "pred_err:avg": "frac"},
        points=tuple(
            Point(
                number=number,
                names=NAMES[number],
                policy=policy(number),
                variables={"T": 1.0, "W": 0.5, "zeta_min": 0.5, "delta": 0.1},
                train=measured((values[0] / 2.0, values[1])),
                test=measured(values),
            )
            for number, values in enumerate(points)
        ),
        baselines=(Baseline(policy=in_force, train=measured((150.0, 0.0)), test=measured((200.0, 0.0))),),
        workload="the last 20 jobs",
        fingerprint="w",
        jobs=20,
        train=part,
        test=part,
        pool_units=4,
        cluster="the cluster",
        fractional=False,
        sizes="estimate",
        restart_s=0.0,
        space="heuristic",
        solver="spea2",
        seed=0,
        evaluations=30,
        impossible=2,
        ended="evaluations",
        seconds=1.5,
        simulations=40,
        hypervolume=0.75,
        reference=measured((300.0, 1.0)),
        versions={"betimes": "0.1.0"},
    )
