"""Limits of time and arrays that each job has from its user and its queue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from betimes.errors import Refused
from betimes.service.spec.job_spec import MOST_ELEMENTS, WHOLE, JobSpec, Seconds, parse_array
from betimes.units import humanise_s


class JobLimits(BaseModel):
    """A default and limits of each job by itself; null: none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    default_time_s: Seconds | None = Field(
        default=None, description="the time limit of a job that has none; by default the longest"
    )
    max_time_s: Seconds | None = Field(default=None, description="the longest time limit of a job")
    max_array: Annotated[int, Field(ge=1, le=MOST_ELEMENTS), WHOLE] | None = Field(
        default=None, description="elements of an array"
    )

    def check(self, spec: JobSpec, whose: str) -> None:
        """Raise Refused for a job beyond these limits; whose: as in `queue debug`."""
        most_s = self.max_time_s
        if most_s is not None and (spec.time_limit_s is None or spec.time_limit_s > most_s):
            raise Refused(f"jobs of {whose} may run for {humanise_s(most_s)} at most", "time_limit_s")
        if spec.array is not None and self.max_array is not None:
            elements = len(parse_array(spec.array)[0])
            if elements > self.max_array:
                raise Refused(
                    f"arrays of {whose} may have {self.max_array} elements at most, and this one has {elements}",
                    "array",
                )


def default_limit_s(limits: Iterable[JobLimits]) -> float | None:
    """The time limit of a job that has none, under all of these: the shortest default, or limit; null: none."""
    known = list(limits)
    longest = [each.max_time_s for each in known if each.max_time_s is not None]
    defaults = [each.default_time_s for each in known if each.default_time_s is not None]
    return min([*longest, *defaults], default=None)
