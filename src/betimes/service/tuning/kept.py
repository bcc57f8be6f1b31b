"""The latest front and its data, as kept in the state directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from betimes.errors import InputError, PolicyError
from betimes.files import write_private
from betimes.foresight.tuning import Baseline, Front, Point
from betimes.service.spec.spec_errors import first_fault
from betimes.service.tuning.drift import Range
from betimes.service.views.models import Proposal, Reason, TuneSpec

FILE = "tuning.json"
PREFIX = "front:"


class Tuned(BaseModel):
    """A front, how and why it was searched for, the policy in force then, and the jobs.

    event: the number of `tuned` in the log. proposed: the proposed point, unless a user asked for the front.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    at: float
    event: int
    spec: TuneSpec
    reason: Reason
    policy: str
    range: Range
    front: Front
    proposed: int | None = None
    not_applied: str | None = None

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """The one kept there, if any. Raises InputError for an invalid file."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({os.strerror(error.errno or 0)})") from error
        except ValidationError as error:
            raise InputError(
                f"{path}: not a front of this version of Betimes ({first_fault(error)}); remove it"
            ) from None

    def write(self, path: Path) -> None:
        """Write it, replacing the one before. Raises OSError."""
        write_private(path, self.model_dump_json())

    def point(self, text: str) -> Point:
        """The point that `front:3` or `front:PCS-balanced` means. Raises PolicyError."""
        try:
            return self.front.named(text.removeprefix(PREFIX))
        except InputError as error:
            raise PolicyError(f"{text}: {error}") from None

    def measured(self, policy: str) -> Baseline | None:
        """A policy's results on these jobs; null: it was not among those tried."""
        for point in self.front.points:
            if point.policy == policy:
                return Baseline(policy=policy, train=point.train, test=point.test)
        return next((each for each in self.front.baselines if each.policy == policy), None)

    def proposal(self, in_force: str) -> Proposal | None:
        """The proposed change; null: none, or another policy has been put in force since."""
        if self.proposed is None or in_force != self.policy:
            return None
        return self._beside(self.front[self.proposed])

    def chosen(self, in_force: str) -> Proposal | None:
        """The point in force, beside the policy that was when this was searched for; null: none of this front is."""
        point = next((each for each in self.front.points if each.policy == in_force != self.policy), None)
        return None if point is None else self._beside(point)

    def _beside(self, point: Point) -> Proposal:
        return Proposal(
            point=point.number,
            names=list(point.names),
            policy=point.policy,
            before=self.policy,
            at=self.at,
            reason=self.reason,
            units=self.front.units,
            in_force=reported(self.measured(self.policy)),
            proposed=reported(point) or {},
            not_applied=self.not_applied,
        )


def reported(what: Point | Baseline | None) -> dict[str, float] | None:
    """The values on the jobs that a front is reported on: those of the testing part, if there is one."""
    if what is None:
        return None
    return what.train if what.test is None else what.test
