"""A portfolio of planners in the service and in the twin: the same selection, after which the chosen one plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes import Workload
from betimes.foresight.nodes.simulate import simulate_nodes
from betimes.service.spec.job_spec import JobSpec
from betimes.twin.users import FairUsers
from tests.service.same_as_twin.test_planners import CLUSTER, SHARES, STOP_S, jobs_of
from tests.service.same_as_twin.test_rents import workload_of
from tests.service.same_as_twin.test_ticks import leases_of
from tests.service.same_as_twin.test_traces import quick
from tests.service.served_traces import Served, of_three, serve_trace

MEMBERS = ("no-packing", "eva/t=1", "stratus", "synergy/t=1")
POLICY = f"portfolio:members={'+'.join(MEMBERS)},tick=300,period=4"


def served(
    policy: str,
    specs: list[JobSpec],
    submit_s: np.ndarray,
    jobs: Workload,
    tmp_path: Path,
    shares: FairUsers | None = None,
) -> Served:
    submissions = list(zip(submit_s.tolist(), specs, strict=True))
    return serve_trace(
        jobs,
        CLUSTER,
        policy,
        tmp_path,
        submissions=submissions,
        promise_every=1 if "pred_err" in policy else 10,
        shares=shares,
    )


def told(of: Served, kind: str) -> list[Any]:
    return list(of.store.events(kinds=[kind]))


# That of the cost is among all selections below.
@pytest.mark.parametrize("objective", quick(["cost:0.1", "jct:avg", "utility"], "jct:avg", "utility"))
def test_the_first_selection_is_the_twins_and_the_chosen_planner_plans(
    objective: str, tmp_path: Path
) -> None:
    """The round at the instant of a selection is still that of the planner before, so that later ones differ."""
    specs, submit_s = jobs_of(12, 3, gap_s=30.0)
    jobs = workload_of(specs, submit_s)
    jobs = replace(jobs, extra={**jobs.extra, "kill_delay_s": np.full(len(specs), STOP_S)})
    policy = f"{POLICY},objective={objective}"
    found = simulate_nodes(jobs, policy, cluster=CLUSTER, sizes="estimate").selections
    assert found is not None
    live = served(policy, specs, submit_s, jobs, tmp_path)
    first, *_ = told(live, "selected")
    assert first.at_s == first.data["from_at"] == found.at_s[0]
    assert list(first.data["scores"]) == found.member[:4].tolist() == list(MEMBERS)
    assert list(first.data["scores"].values()) == pytest.approx(found.score[:4].tolist(), rel=1e-9)
    assert first.data["member"] == found.member[:4][found.chosen[:4]][0]
    assert not np.isnan(live.finish_s).any()
    assert not told(live, "not-selected")
    assert not told(live, "not-planned")


@pytest.mark.parametrize(
    ("objective", "shares"),
    [
        ("cost:0.1", None),
        pytest.param("utility", None, marks=pytest.mark.slow),
        ("cost:0.1", SHARES),
        ("pred_err:avg,rules=paper", None),  # of the jobs that wait or run alone, as live
    ],
)
def test_all_selections_are_the_twins_with_the_same_past(
    objective: str, shares: FairUsers | None, tmp_path: Path
) -> None:
    """A shadow leaves the first member in force; the others are told of all that has ended, and are never asked."""
    specs, submit_s = jobs_of(20, 5, gap_s=600.0)
    jobs = workload_of(specs, submit_s)
    if shares is not None:
        specs, jobs = of_three(specs, jobs)
    jobs = replace(jobs, extra={**jobs.extra, "kill_delay_s": np.full(len(specs), STOP_S)})
    policy = (
        f"portfolio:members=eva/t=1+no-packing+stratus,tick=300,period=3,objective={objective},shadow=true"
    )
    found = simulate_nodes(
        jobs, policy, cluster=CLUSTER, sizes="estimate", users=shares, predict="pred_err" in objective
    ).selections
    assert found is not None
    selected = told(served(policy, specs, submit_s, jobs, tmp_path, shares), "selected")
    assert [event.data["from_at"] for event in selected] == found.at_s[found.chosen].tolist()
    scores = [score for event in selected for score in event.data["scores"].values()]
    assert scores == pytest.approx(found.score.tolist(), rel=1e-9)
    assert [event.data["member"] for event in selected] == found.member[found.chosen].tolist()
    assert len(set(scores)) > len(selected) > 5, "members differ"


def test_it_costs_less_than_the_member_that_is_never_chosen(tmp_path: Path) -> None:
    specs, submit_s = jobs_of(12, 3, gap_s=30.0)
    jobs = workload_of(specs, submit_s)
    fixed = POLICY
    for member in MEMBERS:
        fixed = fixed.replace(member, f"{member}/rounds=fixed")
    chosen = served(f"{fixed},objective=cost", specs, submit_s, jobs, tmp_path / "all")
    alone = served("no-packing:rounds=fixed", specs, submit_s, jobs, tmp_path / "alone")
    members = [event.data["member"] for event in told(chosen, "selected")]
    assert not any(member.startswith("no-packing") for member in members)
    assert told(chosen, "migrating"), "which no-packing never does"
    assert not told(alone, "migrating")
    (_, chosen_usd), (_, alone_usd) = leases_of(chosen), leases_of(alone)
    assert chosen_usd < alone_usd
