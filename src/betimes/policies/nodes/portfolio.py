"""A portfolio: many policies; at each selection the best for the waiting jobs is put in force.

This module only declares; `foresight.portfolio` simulates and selects. Source: Deng et al., portfolio scheduling
(JSSPP 2013); spec/portfolio.md C.3, C.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from betimes.policies.hooks import Parameter, Value
from betimes.policies.nodes.hooks import Member, NodesPolicy
from betimes.policies.nodes.provisioning import PAID_TIME, PROVISIONING, TICK_S
from betimes.policies.nodes.taking_turns import named

ORDERS = ("fifo", "slowdown", "wfp3", "unicef")

CANDIDATES: dict[str, tuple[NodesPolicy, dict[str, Value | None]]] = {
    f"{policy.name}/{order}/{placement}": (policy, {"placement": placement, "order": order})
    for policy in PROVISIONING
    for order in ORDERS
    for placement in PAID_TIME.choices
}
"""All combinations of provisioning, order and placement, in the order of the portfolio."""

PREFERRED = (
    ("odb", "ode", "odm", "odx", "oda"),
    ("unicef", "slowdown", "wfp3", "fifo"),
    ("best", "first", "worst"),
)
"""Tie-breakers, for jobs that come before the next selection: more machines, but none that no job needs; short jobs
first; and the machine whose paid time runs out first."""


def preference(member: str) -> tuple[int, ...]:
    """Sort key of members' names: at equal scores the preferred one comes first."""
    parts = member.split("/")
    return tuple(known.index(part) for known, part in zip(PREFERRED, parts, strict=True))


MOST_SIMULATED = 1e6

MEMBERS = Parameter(
    "members",
    "which policies, joined by +: names or patterns, PROVISIONING/ORDER/PLACEMENT as in odb*, or any other policy with "
    "its parameters after slashes, as in easy/order=sjf/window=3",
    "*",
    is_text=True,
)
ARRIVALS, WHOLE_RUN, PAPER = "arrivals", "whole-run", "paper"
RULES = Parameter(
    "rules",
    "what a score is of: the whole run so far and the jobs that wait (whole-run); also jobs that may come, under the "
    "member that would have been best so far (arrivals); the jobs that wait alone, as published (paper)",
    ARRIVALS,
    choices=(ARRIVALS, WHOLE_RUN, PAPER),
)
STRETCHES = Parameter(
    "stretches",
    "with rules=arrivals: how many stretches of the past a selection draws, 5 unless given, and twice as many "
    "to confirm a choice; more take longer, and chance decides less",
    None,
    low=1.0,
    high=1000.0,
)
UTILITY = "utility"
OBJECTIVE = Parameter(
    "objective",
    "what is best: utility, cost, cost:0.5 where an hour that a job waits counts like 0.5 USD, or METRIC:MEASURE as in "
    "jct:avg or slowdown:p95; METRIC is jct, wait, slowdown, makespan or pred_err, which is how far from their first "
    "promises jobs are expected to end",
    UTILITY,
    is_text=True,
)
SHADOW = Parameter(
    "shadow",
    "true: the first member stays in force, and selections are only reported",
    "false",
    choices=("false", "true"),
)
PERIOD = Parameter("period", "ticks from one selection to the next, while jobs wait", 2.0, low=1.0, high=1e6)
BUDGET = Parameter(
    "budget", "policies simulated in a selection; without it all", None, low=2.0, high=MOST_SIMULATED
)
SECONDS = Parameter(
    "seconds",
    "instead of a budget: seconds by the clock that a selection may take, but for two policies, which are always "
    "simulated; results then depend on the machine",
    None,
    low=1e-6,
    high=1e6,
    is_duration=True,
)
WORKERS = Parameter(
    "workers", "threads that simulate; the choices are the same with any number", 1.0, low=1.0, high=256.0
)
ALPHA = Parameter("alpha", "weight of cost: exponent of job time over rented time", 1.0, low=0.0, high=100.0)
BETA = Parameter("beta", "weight of waiting: exponent of 1 / bounded slowdown", 1.0, low=0.0, high=100.0)
TIES = Parameter(
    "ties",
    "who wins among equals: the one that serves jobs to come best (most machines, short jobs first), or the first of "
    "the portfolio",
    "preference",
    choices=("preference", "index"),
)


PARAMETERS = (
    MEMBERS,
    RULES,
    STRETCHES,
    OBJECTIVE,
    PERIOD,
    BUDGET,
    SECONDS,
    WORKERS,
    ALPHA,
    BETA,
    TIES,
    SHADOW,
    TICK_S,
)


def changes_member(policy: NodesPolicy, values: dict[str, Value | None]) -> bool:
    """Whether another member may come into force: there are several, and selections are not only reported."""
    return (
        policy.members is not None and values.get(SHADOW.name) != "true" and len(policy.members(values)) > 1
    )


def portfolio_of(others: Mapping[str, NodesPolicy]) -> NodesPolicy:
    """The policy `portfolio`; the 60 and the `others` may be its members."""

    def members(values: dict[str, Value | None]) -> Sequence[Member]:
        tick_s = values[TICK_S.name]
        assert isinstance(tick_s, float)
        return named(str(values[MEMBERS.name]), CANDIDATES, others, tick_s)

    return NodesPolicy(
        name="portfolio",
        summary="Simulates many policies on the jobs that wait, and puts the best in force.",
        question="Which policy suits the jobs that wait now?",
        paper="portfolio scheduling (JSSPP 2013)",
        parameters=PARAMETERS,
        members=members,
    )
