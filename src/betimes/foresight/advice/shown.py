"""Advice in words and cells, for a terminal and the page alike."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from betimes.foresight.advice.record import FIGURES, Advice, Unit, Worth
from betimes.units import length, usd

EQUAL, BETTER, WORSE = "=", "+", "-"
SIGNS = {"equal": EQUAL, "better": BETTER, "worse": WORSE}
IN_FORCE = " (in force)"
LONGEST = 30  # of a name in a table


def text_of(unit: Unit, value: float | None) -> str:
    """A value of a figure in words; `-`: it is not known."""
    if value is None:
        return "-"
    if unit == "s":
        return length(value)
    if unit == "usd":
        return usd(value)
    return f"{value:.0%}".replace("%", " %") if unit == "frac" else f"{value:,.{0 if value >= 100 else 2}f}"


def titles(advice: Advice) -> dict[str, str]:
    """The headings of the figures that are known of any policy."""
    return {
        key: figure.title
        for key, figure in FIGURES.items()
        if any(row.figures[key] is not None for row in advice.rows)
    }


def short(policy: str) -> str:
    """A name for tables, without long parameters."""
    return policy if len(policy) <= LONGEST else policy.partition(":")[0]


def cells(advice: Advice) -> list[list[str]]:
    """A row a policy: its name, and each figure with a sign of how it compares with the policy in force."""
    found = list[list[str]]()
    for row in advice.rows:
        values = [
            f"{text_of(FIGURES[key].unit, row.figures[key])} {SIGNS.get(row.against.get(key, ''), ' ')}"
            for key in titles(advice)
        ]
        found.append([short(row.policy) + (IN_FORCE if row.in_force else ""), *values])
    return found


def traded(advice: Advice, worth: Worth) -> tuple[str, str]:
    """Two sentences' parts: the figures that get better under a policy, and those that get worse; may be empty."""
    before = next(row.figures for row in advice.rows if row.in_force)
    after = next(row.figures for row in advice.rows if row.policy == worth.policy)

    def parts(keys: Sequence[str]) -> str:
        return ", ".join(
            f"{FIGURES[key].words} {text_of(FIGURES[key].unit, after[key])} (now "
            f"{text_of(FIGURES[key].unit, before[key])})"
            for key in keys
        )

    return parts(worth.better), parts(worth.worse)


def verdict(advice: Advice) -> str:
    """The outcome in a sentence."""
    if advice.problem is not None:
        return f"Nothing can be said: {advice.problem}."
    if len(advice.rows) == 1:
        return f"No policy can be compared with {advice.in_force}, which is in force."
    if not advice.worth:
        return f"{advice.in_force}, which is in force, is as good as any of these on these jobs, or better."
    many = len(advice.worth)
    return f"{'One policy is' if many == 1 else f'{many} policies are'} worth having instead of {advice.in_force}:"


def explained(advice: Advice) -> list[str]:
    """The meaning of the table's signs, and of its columns, a sentence each."""
    worst = "users who fare worst" if advice.by_user else "jobs that fare worst"
    beside = [f"Not simulated, though it holds here: {', '.join(advice.not_simulated)}."]
    return [
        f"{BETTER} better, {WORSE} worse, {EQUAL} no different from {advice.in_force}: by less than 5 %, or not in "
        "both halves of the period.",
        f"Slowdown: time from submission to end over the run time (at least 10 s). Worst off: the tenth of {worst}.",
        "Promises are kept by jobs that end within an interval made for 80 % of them.",
        "Off by: the error of the promised time, half of the jobs below and half above.",
        *(beside if advice.not_simulated else []),
    ]


def command(policy: str, *, live: bool, cluster: str | None = None) -> str:
    """The line to type that puts a policy in force, in a running service or by starting one."""
    if live:
        return shlex.join(("betimes", "policy", "set", policy))
    return shlex.join(
        ("betimes", "up", *(() if cluster is None else ("--cluster", cluster)), "--policy", policy)
    )
