"""Policies that rent every machine and pack tasks onto them in rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from betimes.cluster import Cluster
from betimes.core.planning import Planner
from betimes.policies.hooks import Parameter, Value
from betimes.policies.nodes.hooks import NodesPolicy

PERIOD = Parameter("period", "seconds between two rounds", 300.0, low=1.0, high=1e6, is_duration=True)
ROUNDS = Parameter(
    "rounds",
    "at-once: the first comes with the first job, and a job that fits on an empty machine starts there between two; "
    "fixed: all is decided at multiples of the period",
    "at-once",
    choices=("at-once", "fixed"),
)
PAIR = Parameter("t", "the throughput of a pair of tasks that has not been observed", 0.95, low=0.0, high=1.0)
RULES = Parameter(
    "rules",
    "as the paper has it, as its released code does, or improved",
    "improved",
    choices=("improved", "paper", "released"),
)
ONLY = Parameter(
    "only",
    "both reconfigurations, whichever pays, or one of them",
    "both",
    choices=("both", "full", "partial"),
)
PLANNER = Parameter(
    "planner",
    "what plans a Full: Algorithm 1, or beside it the cheapest covering (exact), whichever saves more",
    "heuristic",
    choices=("heuristic", "exact"),
)
LIMIT = Parameter(
    "limit", "seconds that the exact planner may take", 2.0, low=0.01, high=3600.0, is_duration=True
)
PROFILE = Parameter(
    "profile",
    "seconds that a job runs alone at most, until its reports of progress say how fast it is then; 0: none does",
    0.0,
    low=0.0,
    high=1e6,
    is_duration=True,
)
LEAST_SAVING = Parameter(
    "least_saving",
    "USD an hour that a plan must save over one that moves no running job; 0: a plan that saves anything is taken",
    0.0,
    low=0.0,
    high=1e6,
)


def _switch(name: str, help: str, *values: str) -> Parameter:  # noqa: A002 - the field's word
    return Parameter(name, f"{help}; by default as `rules` has it", choices=values or ("true", "false"))


SWITCHES = (
    _switch("fill", "whether tasks join those that stay on a machine", "never", "always", "cost-test"),
    _switch("down_sizing", "onto which machine of the cheapest type a set goes", "never", "new", "reuse"),
    _switch(
        "table",
        "what observed combinations say of throughput (ignored: nothing slows a task, as Eva-RP has it)",
        "lower-bound",
        "mean",
        "fitted",
        "ignored",
    ),
    _switch("penalty", "what a slowed task costs its job", "none", "job", "own"),
    _switch("penalty_everywhere", "that cost also for tasks that stand on machines"),
    _switch("honest_events", "every event counts once, and only a round with one may adopt a Full"),
    _switch("poisson", "the exact time that a configuration lasts where events are Poisson"),
    _switch("matching", "the assignment to running machines with the fewest moves"),
    _switch("keep_old", "a task stays on its old machine until the new one is up"),
    _switch(
        "ends",
        "whether savings count only until the jobs are believed to end: a short job then moves no other",
    ),
    _switch("rounded", "totals are compared in cents"),
)
_ROUNDS_AS_RULES = _switch("rounds", ROUNDS.help, *ROUNDS.choices)
_FIELDS = {"fill": "fill_running", "keep_old": "keep_running", "ends": "ends_believed"}
"""Fields of `Rules`, by the parameters that are named otherwise."""

Values = dict[str, Value | None]


def fills(values: Values) -> bool:
    """Whether a job that fits on an empty machine starts between two rounds, as the parameter `rounds` has it.

    Without one it does, but under the published Eva and its release.
    """
    return (values.get("rounds") or ("at-once" if values["rules"] == "improved" else "fixed")) == "at-once"


def _number(values: Values, name: str) -> float:
    return float(cast("float", values[name]))


def in_rounds(
    make: Callable[[Values, Cluster], Any], *, every_round: bool = False
) -> Callable[[Values, Cluster], Planner]:
    """Return a factory for `NodesPolicy.planner`: its planners ask the one that `make` returns once every `period`.

    every_round: it plans also where nothing has happened since the round before.
    """

    def planner(values: Values, cluster: Cluster) -> Planner:
        from betimes.policies.packing.rounds import Rounds

        # The released log depends on the time, and may adopt a Full without an event.
        honest = values.get("honest_events") or ("false" if values.get("rules") == "released" else "true")
        every = every_round or honest == "false"
        profile_s = _number(values, "profile") if "profile" in values else 0.0
        period_s = _number(values, "period")
        return Rounds(make(values, cluster), cluster, period_s, every_round=every, profile_s=profile_s)

    return planner


def _no_packing(values: Values, cluster: Cluster) -> Any:
    from betimes.policies.packing import NoPacking

    return NoPacking()


def _consolidation(values: Values, cluster: Cluster) -> Any:
    from betimes.policies.packing import Consolidation

    return Consolidation()


def _eva(values: Values, cluster: Cluster) -> Any:
    from betimes.policies.packing import RULES as NAMED
    from betimes.policies.packing import Eva

    rules = NAMED[str(values["rules"])].with_(
        only=str(values["only"]),
        planner=str(values["planner"]),
        least_saving_usd_per_h=_number(values, "least_saving"),
        **_switched(values),
    )
    return Eva(rules, default_pair=_number(values, "t"), limit_s=_number(values, "limit"))


def _switched(values: Values) -> dict[str, str | bool]:
    """The given switches, as fields of Rules."""
    given = {each.name: values[each.name] for each in SWITCHES if values.get(each.name) is not None}
    return {
        _FIELDS.get(name, name): value == "true" if value in ("true", "false") else str(value)
        for name, value in given.items()
    }


PACKING = (
    NodesPolicy(
        name="no-packing",
        summary="Every task has a rented machine to itself, the cheapest that holds it.",
        question="What does it cost to share nothing?",
        paper="the baseline of Eva (EuroSys 2025)",
        parameters=(PERIOD, ROUNDS),
        fills=fills,
        planner=in_rounds(_no_packing),
    ),
    NodesPolicy(
        name="consolidation",
        summary="Machines whose tasks fit elsewhere, or on a cheaper one, are emptied.",
        question="What do operators' consolidators reach?",
        paper="Karpenter's consolidation",
        parameters=(PERIOD, ROUNDS),
        fills=fills,
        planner=in_rounds(_consolidation),
    ),
    NodesPolicy(
        name="eva",
        summary="Rents and packs by reservation price and observed interference; moves tasks when that pays.",
        question="Which machines to rent, and which tasks share one?",
        paper="Eva (EuroSys 2025)",
        parameters=(
            PERIOD,
            PAIR,
            RULES,
            ONLY,
            PLANNER,
            LIMIT,
            LEAST_SAVING,
            PROFILE,
            *SWITCHES,
            _ROUNDS_AS_RULES,
        ),
        fills=fills,
        planner=in_rounds(_eva),
    ),
)
