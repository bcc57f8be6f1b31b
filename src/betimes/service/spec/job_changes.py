"""Changes of a job that is not over: fewer fields than a job has, each as `JobSpec` has it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from betimes.errors import Refused
from betimes.service.spec.family_demand import Amount
from betimes.service.spec.job_spec import (
    MOST_AFTER,
    MOST_UNITS,
    WHOLE,
    After,
    Instant,
    JobSpec,
    Label,
    Priority,
    Seconds,
    Text,
)

ALWAYS = ("name", "labels", "priority")
"""Fields that can be changed of every job that is not over, be it a set of trials."""
RUNNING = (*ALWAYS, "estimate_s", "time_limit_s")
"""Fields that can be changed while the job runs."""
UNFORESEEN = ("name", "labels")
"""Fields on which no promise rests."""

_Units = Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE]


class JobChanges(BaseModel):
    """Fields to change; those left out, or null, stay as they are."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, json_schema_extra={"examples": [{"time_limit_s": 7200, "priority": 3}]}
    )

    name: Label | None = None
    labels: dict[Label, Text] | None = Field(default=None, max_length=100)  # beside those that it has
    priority: Priority | None = None
    estimate_s: Seconds | None = None  # of the run on max_units
    time_limit_s: Seconds | None = None  # of a run that goes on: from its start
    min_units: _Units | None = None
    max_units: _Units | None = None
    cpu: Amount | None = None
    memory_gib: Amount | None = None
    gpu: Amount | None = None
    after: list[After] | None = Field(default=None, max_length=MOST_AFTER)
    """Empty: it waits for none any more."""
    singleton: bool | None = None  # it waits for its user's jobs of its name that came before; false: no more
    begin_at: Instant | None = None  # 0: at any time

    @property
    def given(self) -> dict[str, Any]:
        """The fields to change, by name."""
        return self.model_dump(mode="json", exclude_none=True)

    def changed(self, spec: JobSpec) -> JobSpec:
        """The job with these changes. Raises Refused, naming the field, where they do not go together."""
        from betimes.service.spec.spec_errors import faults

        given = self.given
        fields: dict[str, Any] = {**spec.model_dump(mode="json", exclude_defaults=True), **given}
        if "labels" in given:
            fields["labels"] = {**spec.labels, **given["labels"]}
        if "estimate_s" in given:
            fields |= {"steps": None, "step_s": None}
        try:
            return JobSpec(**fields)
        except ValidationError as error:
            fault = faults(error)[0]
            raise Refused(fault.text, fault.field or None) from None
