"""Columns that have to grow on the way change nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from betimes.outcome import Result
from tests.reference.nodes.cases import Case, cases, crowded_cases, is_refused, with_families
from tests.twin.nodes.driving import draw, simulation_of, small_columns


def result_of(case: Case) -> Result:
    run = simulation_of(case, timeline=True)
    run.run()
    return run.result()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases() | crowded_cases() | with_families(cases() | crowded_cases()))
def test_same_result_however_small_the_columns_begin(monkeypatch: pytest.MonkeyPatch, case: Case):
    assume(not all(is_refused(job, case.nodes, case.policy) for job in case.jobs))
    case = replace(case, policy=replace(case.policy, draw=draw))
    large = result_of(case)
    with monkeypatch.context() as patch:
        small_columns(patch)
        assert result_of(case) == large
