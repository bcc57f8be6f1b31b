"""Savings that a shadow portfolio missed: the same run with its choices in force."""

from __future__ import annotations

from dataclasses import replace

from betimes.outcome import Result, job_metric, metrics
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.nodes.portfolio import SHADOW
from betimes.policies.parsing import ChosenPolicy


def in_force(policy: ChosenPolicy[NodesPolicy]) -> ChosenPolicy[NodesPolicy]:
    """The same portfolio with its choices in force."""
    given = tuple(name for name in policy.given if name != SHADOW.name)
    return replace(policy, values={**policy.values, SHADOW.name: "false"}, given=given)


def saved(shadow: Result, decided: Result) -> str:
    """One line: mean completion time, slowdown and cost of the shadow's run and of the run its choices decided."""
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
