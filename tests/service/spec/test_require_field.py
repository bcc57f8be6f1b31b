"""The labels that a job requires: how they are written, and what is said of anything else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from betimes.errors import JobFileError
from betimes.service.spec.job_file import read_drafts, specs_of
from betimes.service.spec.job_spec import JobSpec, node_labels
from betimes.service.spec.spec_errors import faults

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def test_by_default_none_is_required() -> None:
    spec = JobSpec(command=["x"])
    assert (spec.require, spec.required) == ({}, ())
    assert "require" not in spec.model_dump(exclude_defaults=True)


@pytest.mark.parametrize("given", [{"zone": "a", "kind": "x"}, ["zone=a", "kind=x"], ["kind=x", "zone=a"]])
def test_a_mapping_or_texts(given: object) -> None:
    spec = JobSpec.model_validate({"command": ["x"], "require": given})
    assert spec.required == (("kind", "x"), ("zone", "a"))
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("zone=a", "expected labels such as zone=a, found 'zone=a'"),
        (7, "expected labels such as zone=a, found 7"),
        (["zone"], "expected a label such as zone=a, found 'zone'"),
        (["zone=a", 3], "expected labels such as zone=a, found ['zone=a', 3]"),
        (["zone=a", "zone=b"], "expected one value of zone, found a and b; leave one out"),
        ({"zone": 1}, "found the value 1"),
        ({"a b": "c"}, "found the key 'a b'; give it at most 256 letters, digits and . _ : / @ + -"),
    ],
)
def test_anything_else_is_refused_with_one_message(given: object, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        JobSpec.model_validate({"command": ["x"], "require": given})
    [fault] = faults(caught.value)
    assert fault.field == "require"
    assert said in fault.text


@given(anything)
def test_whatever_is_given_is_taken_or_refused_for_this_field(given: object) -> None:
    found = []
    with contextlib.suppress(ValidationError):
        found = [JobSpec.model_validate({"command": ["x"], "require": given})]
    if found:
        assert set(found[0].required) == set(node_labels(given).items())
    else:
        with pytest.raises(ValueError, match=r"^expected "):
            node_labels(given)


FILE = """
[defaults]
require = {{ zone = "a", kind = "x" }}

[[jobs]]
command = "run"
require = {given}
"""


@pytest.mark.parametrize(
    ("given", "required"),
    [
        ('{ kind = "y" }', (("kind", "y"), ("zone", "a"))),
        ('["rack=1"]', (("kind", "x"), ("rack", "1"), ("zone", "a"))),
        ('"rack=1"', (("kind", "x"), ("rack", "1"), ("zone", "a"))),
    ],
)
def test_a_file_adds_to_what_its_defaults_require(tmp_path: Path, given: str, required: object) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(FILE.format(given=given))
    [spec] = specs_of(read_drafts(path))
    assert spec.required == required


def test_a_file_that_requires_no_label_names_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(FILE.format(given='["rack"]'))
    with pytest.raises(JobFileError, match=r"jobs.toml, line 7, job 1, field require: .* found 'rack'"):
        specs_of(read_drafts(path))
