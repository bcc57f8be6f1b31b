"""Advice as a record: the figures of each policy, what is worth having, and what was left out."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from betimes.foresight.engines import Engine

Unit = Literal["s", "ratio", "frac", "usd"]


class Figure(NamedTuple):
    """A figure of a policy: its heading, in words, its unit, and the purpose of the policy that is best in it.

    purpose: null: no policy is chosen for it, as it says little by itself.
    """

    title: str
    words: str
    unit: Unit
    purpose: str | None


FIGURES = {
    "wait_s": Figure("Wait, mean", "waits", "s", "shortest waits"),
    "slowdown": Figure("Slowdown, mean", "slowdown", "ratio", "least slowdown"),
    "worst_off": Figure("Slowdown, worst off", "slowdown of the worst off", "ratio", "fairest"),
    "kept_frac": Figure("Promises kept", "promises kept", "frac", None),
    "off_frac": Figure("Promises off by, median", "promises off by", "frac", "closest promises"),
    "cost_usd": Figure("Cost", "cost", "usd", "cheapest"),
}
"""By name, in order. Of each but `kept_frac` less is better.

`slowdown` is the bounded one (10 s); `worst_off` its mean over the tenth of users who fare worst, or of jobs where
users are not known. A promise is kept if the job ends within its interval of 80 %; it is off by its error over the
promised JCT. `cost_usd` is of all machines, known where machines can be rented.
"""

Compared = Literal["better", "equal", "worse"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Row(_Record):
    """A policy, what it brings on these jobs, and beside the policy in force; null: a figure is not known."""

    policy: str
    engine: Engine
    in_force: bool
    figures: dict[str, float | None] = Field(description="by the names of the table's columns")
    against: dict[str, Compared] = Field(description="each figure beside that of the policy in force")
    preemptions: int
    seconds: float = Field(description="that its simulation took")


class Worth(_Record):
    """A policy that is worth having: for what, which figures get better by it, and which get worse."""

    policy: str
    purposes: tuple[str, ...]
    better: tuple[str, ...]
    worse: tuple[str, ...]


class LeftOut(_Record):
    """Policies without figures, and why."""

    policies: tuple[str, ...]
    why: str


class Advice(_Record):
    """What other policies would have done with past jobs.

    rows: the policy in force first; none: there are too few jobs. worth: none where no policy is better beyond noise.
    """

    workload: str
    jobs: int = Field(description="that figures are of; the same under all policies")
    warm_up: int = Field(
        description="jobs before these, simulated so that the machines are not empty at the begin"
    )
    span_s: float
    in_force: str
    by_user: bool = Field(description="whether the worst off are users; else jobs")
    rows: tuple[Row, ...]
    worth: tuple[Worth, ...]
    left_out: tuple[LeftOut, ...]
    problem: str | None = Field(default=None, description="why nothing can be said")
    not_simulated: tuple[str, ...] = Field(
        default=(), description="what holds here, and held in no simulation"
    )
