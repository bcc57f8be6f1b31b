"""Fields that are numbers take no `true`, which is another type in JSON, though 1 in Python."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from betimes.service.spec.family_demand import FamilyDemand
from betimes.service.spec.job_changes import JobChanges
from betimes.service.spec.job_spec import Curve, JobSpec
from betimes.service.spec.spec_errors import faults

NUMBERS = ("number", "integer")
ENTRIES: dict[str, Any] = {"resources": {"licence": True}, "units_per_task": True}


def numeric(model: type[BaseModel]) -> list[str]:
    """The fields that are numbers by the schema of the API."""
    fields = model.model_json_schema()["properties"]
    return [
        name
        for name, field in fields.items()
        if any(one.get("type") in NUMBERS for one in (field, *field.get("anyOf", ())))
    ]


def cases() -> list[Any]:
    found = [(model, name, True) for model in (JobSpec, FamilyDemand, JobChanges) for name in numeric(model)]
    found += [(JobSpec, name, value) for name, value in ENTRIES.items()]
    found += [(Curve, "speedup", {1: True})]
    return [pytest.param(*each, id=f"{each[0].__name__}.{each[1]}") for each in found]


@pytest.mark.parametrize(("model", "name", "value"), cases())
def test_true_is_no_number(model: type[BaseModel], name: str, value: Any) -> None:
    fields = {"command": ["x"], name: value} if model is JobSpec else {name: value}
    with pytest.raises(ValidationError) as refused:
        model(**fields)
    (fault,) = faults(refused.value)
    assert fault.field.startswith(name)
    assert "rue" in fault.text


def test_the_schema_names_the_numbers() -> None:
    assert {"cpu", "min_units", "estimate_s", "grace_s", "begin_at", "retries"} <= set(numeric(JobSpec))
