"""Which point of a front to propose, and whether it may be put in force by itself."""

from __future__ import annotations

from collections.abc import Sequence

from betimes.foresight.tuning import Front, Point
from betimes.foresight.tuning.named import BALANCED
from betimes.service.tuning.bounds import Bound
from betimes.service.tuning.kept import Tuned, reported


def propose(front: Front, before: Tuned | None, policy: str, bounds: Sequence[Bound]) -> Point:
    """The point that is called as the one in force was on the front before, or else PCS-balanced.

    Where there are bounds that it does not keep, the point nearest to it in number that does, if one does.
    """
    wanted = front.named(_name(before, policy))
    in_force = reported(next((each for each in front.baselines if each.policy == policy), None))
    fit = [point for point in front if not broken(bounds, point, in_force)]
    return min(fit or [wanted], key=lambda point: (abs(point.number - wanted.number), point.number))


def broken(bounds: Sequence[Bound], point: Point, in_force: dict[str, float] | None) -> str | None:
    """The first bound that a point does not keep, and why; null: it keeps all."""
    found = (bound.broken_by(reported(point) or {}, in_force) for bound in bounds)
    return next((why for why in found if why is not None), None)


def _name(before: Tuned | None, policy: str) -> str:
    points = before.front.points if before is not None else ()
    names = [name for point in points if point.policy == policy for name in point.names]
    return BALANCED if BALANCED in names or not names else names[0]
