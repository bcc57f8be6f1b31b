"""Advice on cases worked by hand: figures, differences that are none, the few to have, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from betimes import Workload
from betimes.foresight.advice import (
    Advice,
    Period,
    Row,
    advise,
)
from betimes.foresight.advice.advising import worth_having
from betimes.foresight.advice.candidates import Candidates
from betimes.foresight.advice.shown import explained
from betimes.twin.options import SimulationOptions

LONG, SHORT = 1, 2
ONE_CORE = SimulationOptions(units=1)


def pairs(count: int, lone: int = 0) -> Workload:
    """A job of 100 s, and right behind it one of 10 s, on one core, again and again; then jobs that are alone."""
    submit_s = [*np.repeat(np.arange(count) * 1000.0, 2), *((count + np.arange(lone)) * 1000.0)]
    run_s = [100.0, 10.0] * count + [100.0] * lone
    users = [LONG, SHORT] * count + [LONG] * lone
    return Workload.from_columns(
        submit_s=submit_s, work_s=run_s, estimate_s=run_s, user=users, machine_units=1, name="pairs"
    )


def of(workload: Workload, *others: str, in_force: str = "nodes:fifo", budget_s: float = 300.0) -> Advice:
    """Advice on all jobs of a workload."""
    return advise(Period(workload, 0), ONE_CORE, in_force, Candidates(others, ()), budget_s=budget_s)


def figures(advice: Advice, policy: str) -> list[float | None]:
    """Wait, slowdown and that of the worst off."""
    row = next(each for each in advice.rows if each.policy == policy)
    return [row.figures[key] for key in ("wait_s", "slowdown", "worst_off")]


def test_figures_of_two_orders() -> None:
    found = of(pairs(100), "sjf")
    # In order of arrival the short job waits for 100 s and has a slowdown of 11; else the long one for 10 s, and 1.1.
    assert figures(found, "nodes:fifo") == pytest.approx([50.0, 6.0, 11.0])
    assert figures(found, "sjf") == pytest.approx([5.0, 1.05, 1.1])
    assert (found.jobs, found.in_force, found.by_user) == (200, "nodes:fifo", True)
    assert [row.in_force for row in found.rows] == [True, False]
    assert found.rows[1].against["wait_s"] == found.rows[1].against["worst_off"] == "better"
    (worth,) = found.worth
    assert worth.policy == "sjf"
    assert {"shortest waits", "least slowdown", "fairest", "balanced"} <= {*worth.purposes}


def test_rules_that_no_simulation_has_are_named() -> None:
    found = of(pairs(100))
    assert not any("Not simulated" in line for line in explained(found))
    named = explained(found.model_copy(update={"not_simulated": ("queues", "limits of users")}))
    assert named[-1] == "Not simulated, though it holds here: queues, limits of users."


def test_a_difference_in_one_half_is_none() -> None:
    found = of(pairs(100, lone=200), "sjf")
    assert figures(found, "nodes:fifo")[0] == pytest.approx(25.0)
    assert figures(found, "sjf")[0] == pytest.approx(2.5)
    assert {found.rows[1].against[key] for key in ("wait_s", "slowdown")} == {"equal"}
    assert found.worth == ()


def test_the_period_is_the_last_days_after_some_jobs_that_fill_the_machines() -> None:
    period = Period.last(pairs(200), 70_000.0)
    assert period.workload.submit_s[0] == 199_000.0 - 80_000.0
    assert period.workload.submit_s[period.first] == 199_000.0 - 70_000.0
    found = advise(period, ONE_CORE, "nodes:fifo", Candidates((), ()), budget_s=60.0)
    assert (found.jobs, found.warm_up) == (142, 20)
    assert found.span_s == 70_000.0


def test_few_jobs_are_counted_and_not_ranked() -> None:
    found = of(pairs(49), "sjf")
    assert found.rows == found.worth == ()
    assert "98 jobs" in str(found.problem)
    assert of(pairs(50)).problem is None


def test_policies_that_take_too_long_are_named() -> None:
    found = of(pairs(100), "sjf", "easy", budget_s=0.0)
    assert [row.policy for row in found.rows] == ["nodes:fifo"]
    (left_out,) = found.left_out
    assert left_out.policies == ("sjf", "easy")
    assert "--budget" in left_out.why


def test_a_policy_that_cannot_run_is_named_with_its_reason() -> None:
    found = of(pairs(60), "njw", "sjf")
    assert [row.policy for row in found.rows][-1] == "sjf"
    assert found.left_out[0].policies == ("njw",)


def test_several_processes_give_the_same() -> None:
    one = of(pairs(60), "sjf", "easy")
    several = advise(
        Period(pairs(60), 0),
        ONE_CORE,
        "nodes:fifo",
        Candidates(("sjf", "easy"), ()),
        budget_s=300.0,
        processes=2,
    )
    assert [(row.policy, row.figures) for row in several.rows] == [
        (row.policy, row.figures) for row in one.rows
    ]


def row(policy: str, wait_s: float, slowdown: float, off_frac: float, *, worse: Sequence[str] = ()) -> Row:
    """A policy on nodes; better in waits and slowdown than the first, `now`, which stands at 100, 10 and 0.5."""
    against = {} if policy == "now" else {"wait_s": "better", "slowdown": "better", "off_frac": "equal"}
    return Row.model_validate(
        {
            "policy": policy,
            "engine": "nodes",
            "in_force": policy == "now",
            "figures": {
                "wait_s": wait_s, "slowdown": slowdown, "worst_off": None, "kept_frac": None, "off_frac": off_frac,
                "cost_usd": None,
            },
            "against": {**against, **dict.fromkeys(worse, "worse")},
            "preemptions": 0,
            "seconds": 1.0,
        }
    )  # fmt: skip


def test_of_policies_as_good_within_noise_the_one_that_gives_up_least_is_chosen() -> None:
    now, near = row("now", 100.0, 10.0, 0.5), row("near", 10.2, 2.0, 0.5)
    best = row("best", 10.0, 2.0, 0.55, worse=("off_frac",))
    (chosen,) = worth_having([now, best, near])
    assert chosen.policy == "near"
    assert chosen.better == ("wait_s", "slowdown")
    assert chosen.worse == ()
    (chosen,) = worth_having([now, best, row("far", 20.0, 4.0, 0.5)])
    assert (chosen.policy, chosen.worse) == ("best", ("off_frac",))


def test_a_policy_that_makes_a_figure_twice_as_bad_is_not_worth_having() -> None:
    now = row("now", 100.0, 10.0, 0.5)
    assert worth_having([now, row("wild", 1.0, 1.0, 1.01, worse=("off_frac",))]) == []
