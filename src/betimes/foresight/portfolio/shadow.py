"""What the choices of a shadow portfolio would have saved: the run once more, with them in force."""

from __future__ import annotations

from dataclasses import replace

from betimes.outcome import Result, job_metric, metrics
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.portfolio import SHADOW
from betimes.policies.parsing import ChosenPolicy


def in_force(policy: ChosenPolicy[NodesPolicy]) -> ChosenPolicy[NodesPolicy]:
    """The same portfolio, whose choices decide."""
    given = tuple(name for name in policy.given if name != SHADOW.name)
    return replace(policy, values={**policy.values, SHADOW.name: "false"}, given=given)


def saved(shadow: Result, decided: Result) -> str:
    """In a line: mean completion time and slowdown, and what is paid, of the shadow's run and as its choices decide."""
    parts = [
        f"{name} {_mean(decided, metric):.4g}{unit} instead of {_mean(shadow, metric):.4g}{unit}"
        for name, metric, unit in (
            ("mean JCT", "jct_s", " s"),
            ("mean bounded slowdown", "bounded_slowdown", ""),
        )
    ]
    if shadow.leases is not None and decided.leases is not None:
        paid, would_be = (metrics.total(each.leases.cost_usd) for each in (shadow, decided) if each.leases)
        parts.append(f"{would_be:,.2f} USD instead of {paid:,.2f} USD")
    return f"portfolio: with its choices in force, {', '.join(parts)}"


def _mean(result: Result, metric: str) -> float:
    return metrics.mean(job_metric(result, metric)[result.jobs.finished])
