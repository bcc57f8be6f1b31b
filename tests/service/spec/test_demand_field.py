"""What a job needs on each family of machines: how it is written, and what is said of anything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from betimes.cli.live.jobs.job_options import given_fields
from betimes.errors import InputError, JobFileError
from betimes.service.spec.job_file import read_drafts, specs_of
from betimes.service.spec.job_spec import JobSpec
from betimes.service.spec.spec_errors import faults

P3, C7I = ("p3", (1.0, 4.0, 10.0)), ("c7i", (0.0, 2.0, 16.0))


def spec_of(**fields: Any) -> JobSpec:
    return JobSpec.model_validate({"command": ["x"], **fields})


def test_by_default_a_job_needs_the_same_everywhere() -> None:
    spec = spec_of(gpu=1)
    assert spec.unit.on("p3") == spec.unit.on("any other") == (1.0, 1.0, 0.0)
    assert "demand" not in spec.model_dump(exclude_defaults=True)


def test_what_is_left_out_of_a_family_is_what_the_job_says_beside_it() -> None:
    spec = spec_of(memory_gib=16, demand={"p3": {"gpu": 1, "cpu": 4, "memory_gib": 10}, "c7i": {"cpu": 2}})
    assert spec.unit.by_family == (C7I, P3)
    assert spec.unit.on("m5") is None, "it runs on the families that are named, and on no others"
    assert JobSpec.model_validate_json(spec.model_dump_json(exclude_defaults=True)) == spec


@pytest.mark.parametrize(
    ("demand", "field", "said"),
    [
        (7, "demand", "expected a table of names and values, found 7"),
        ({"p3": 4}, "demand.p3", "expected a table of names and values, found 4"),
        ({"p3": {"cores": 4}}, "demand.p3.cores", "unknown field 'cores'; known are gpu, cpu, memory_gib"),
        ({"p3": {"cpu": -1}}, "demand.p3.cpu", "-1 is too small; give 0 or more"),
        ({"p3": {"cpu": 0}}, "", "demand.p3: a unit needs something of cpu, gpu or memory_gib there"),
        ({"": {"cpu": 1}}, "demand.", "is empty"),
    ],
)
def test_anything_else_is_refused(demand: object, field: str, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        spec_of(demand=demand)
    [fault] = faults(caught.value)
    assert fault.field == field
    assert said in fault.text


FILE = """
[defaults]
command = "run"
memory = "16GiB"
demand = { p3 = { gpu = 1, cpu = 4, memory = "10GiB" } }

[[jobs]]

[[jobs]]
[jobs.demand.c7i]
cpu = 2

[[jobs]]
cpu = 2
demand = { p3 = { gpu = 2 } }
"""


def test_a_file_has_tables_by_family_which_are_merged_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(FILE)
    first, second, third = specs_of(read_drafts(path))
    assert first.unit.by_family == (P3,)
    assert second.unit.by_family == (C7I, P3)
    assert third.unit.by_family == (("p3", (2.0, 2.0, 16.0)),)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('demand = { p3 = { memory = "10GB" } }', r"line 3, field demand: .*1000 or 1024"),
        (
            "demand = { p3 = { memory = 1, memory_gib = 1 } }",
            r"line 3, field demand: p3: memory and memory_gib",
        ),
        (
            "demand = { p3 = { cpus = 1 } }",
            r"line 3, field demand.p3.cpus: unknown field 'cpus' \(did you mean 'cpu'",
        ),
    ],
)
def test_a_file_that_is_wrong_names_line_and_field(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(f'\ncommand = "run"\n{line}\n')
    with pytest.raises(JobFileError, match=said):
        specs_of(read_drafts(path))


def test_the_option_is_repeated_for_each_family() -> None:
    fields = given_fields({"demand": ["p3:gpu=1,cpu=4,memory=10GiB", "c7i:cpu=2"], "memory": "16GiB"})
    assert spec_of(**fields).unit.by_family == (C7I, P3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["p3"], "--demand: expected a family and what a unit needs there, as in p3:gpu=1,.*; found 'p3'"),
        (["p3:cpu"], "--demand: expected a family"),
        (["p3:cpu=many"], "--demand: expected a family"),
        (["p3:cpu=1,cpu=2"], "--demand: expected a family"),
        ([":cpu=1"], "--demand: expected a family"),
        (["p3:cpu=1", "p3:gpu=1"], "--demand: family p3 is named twice; leave one of them out"),
        (["p3:memory=10GB"], "--demand: '10GB' does not say whether"),
    ],
)
def test_an_option_that_cannot_be_read(given: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        given_fields({"demand": given})
