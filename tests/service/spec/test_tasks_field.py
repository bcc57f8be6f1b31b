"""The choice of tasks of a job: what it may be, and what is said of anything else."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from betimes.cluster.tasks import PACK, SPREAD
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.spec_errors import faults


def test_the_default_is_to_pack() -> None:
    spec = JobSpec(command=["x"], max_units=8)
    assert (spec.units_per_task, spec.task_choice) == ("pack", PACK)
    assert "units_per_task" not in spec.model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    ("given", "kept", "choice"),
    [("spread", "spread", SPREAD), (4, 4, 4), (4.0, 4, 4), (8, 8, 8), (1, 1, 1)],
)
def test_choices(given: object, kept: object, choice: int) -> None:
    spec = JobSpec.model_validate({"command": ["x"], "max_units": 8, "units_per_task": given})
    assert (spec.units_per_task, spec.task_choice) == (kept, choice)
    assert JobSpec.model_validate_json(spec.model_dump_json(), strict=True) == spec


@pytest.mark.parametrize("given", ["few", "", 0, -2, 2.5, True, None, [], {}, 10**7, "Pack", "4"])
def test_anything_else_is_refused_with_one_message(given: object) -> None:
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate({"command": ["x"], "max_units": 8, "units_per_task": given})
    [fault] = faults(caught.value)
    assert fault.field == "units_per_task"
    assert "is not pack, spread or a number of units from 1 to 1,000,000" in fault.text


def test_the_tasks_of_a_job_are_equal() -> None:
    with pytest.raises(ValidationError) as caught:
        JobSpec(command=["x"], min_units=1, max_units=12, units_per_task=5)
    [fault] = faults(caught.value)
    assert "units_per_task 5 does not divide max_units 12" in fault.text
    assert "give one of 1, 2, 3, 4, 6, 12, or pack" in fault.text
