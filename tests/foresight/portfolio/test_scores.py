"""Scores under both rules, and the totals of a run that those of Betimes go by."""

from __future__ import annotations

import pytest

from betimes.foresight.portfolio.driver import FEW_JOBS, of_queue, of_run
from betimes.foresight.portfolio.ledger import Ledger, Totals
from betimes.foresight.portfolio.lookahead import Foreseen
from betimes.foresight.portfolio.utility import Utility
from betimes.outcome import job_metric
from betimes.policies import parse_nodes_policy
from betimes.twin.nodes.simulation import NodesSimulation
from betimes.twin.options import SimulationOptions
from tests.foresight.portfolio.clusters import VMS, bursts

FORESEEN = Foreseen(jobs=2, slowdown=1.5, machine_s=7200.0, used_s=3000.0, used_usd=0.5)


def test_of_the_queue_only_what_waits_counts() -> None:
    assert of_queue(Utility(), 3600.0, FORESEEN) == pytest.approx(100.0 * 0.5 / 1.5)


def test_of_the_run_what_was_paid_and_waited_for_before_counts() -> None:
    so_far = Totals(jobs=FEW_JOBS, job_s=36_000.0, machine_s=69_000.0, slowdown=30.0)
    expected = 100.0 * (39_600.0 / 72_000.0) * (22.0 / 33.0)
    assert of_run(Utility(), so_far, 3600.0, FORESEEN) == pytest.approx(expected)


def test_before_a_few_jobs_have_finished_there_is_no_run_to_go_by() -> None:
    so_far = Totals(jobs=FEW_JOBS - 1, job_s=1.0, machine_s=1.0, slowdown=1.0)
    assert of_run(Utility(), so_far, 3600.0, FORESEEN) == of_queue(Utility(), 3600.0, FORESEEN)


def test_the_totals_of_a_run_are_those_of_its_result() -> None:
    chosen = parse_nodes_policy("portfolio:members=oda/fifo/first")
    run = NodesSimulation(bursts(1), chosen, SimulationOptions(cluster=VMS))
    ledger = Ledger(run)
    seen: list[Totals] = []

    def select() -> None:
        seen.append(ledger.totals())
        run.state.cluster[0].select_s = float(run.state.pool[0].now) + 20.0

    run.select = select
    run.state.cluster[0].select_s = 0.0
    run.run()
    found, result = ledger.totals(), run.result()
    assert result.leases is not None
    assert len(seen) > 2
    assert [each.machine_s for each in seen] == sorted(each.machine_s for each in seen)
    assert (found.jobs, found.job_s) == (len(result.jobs), pytest.approx(float(result.jobs.work_s.sum())))
    assert found.machine_s == pytest.approx(3600.0 * float(result.leases.cost_usd.sum()))
    run_s = result.jobs.run_alone_s.clip(10.0)
    slowdowns = (job_metric(result, "wait_s") + run_s) / run_s
    assert found.slowdown == pytest.approx(float(slowdowns.sum()))
