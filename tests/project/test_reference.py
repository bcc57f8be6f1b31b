"""The reference pages say what the code declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.policies.registry import POLICIES
from betimes.workload.readers.registry import FORMATS
from tools import reference

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", reference.PAGES)
def test_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == reference.pages()[name], "run `make docs`"


def test_every_policy_and_format_has_its_section() -> None:
    pages = reference.pages()
    assert [line[3:] for line in pages["policies.md"].splitlines() if line.startswith("## ")] == [*POLICIES]
    assert [line[3:] for line in pages["formats.md"].splitlines() if line.startswith("## ")] == [*FORMATS]


def test_parameters_are_listed_with_default_and_range() -> None:
    page = reference.policies_page()
    for policy in POLICIES.values():
        section = page.partition(f"## {policy.name}\n")[2].partition("\n## ")[0]
        for parameter in policy.parameters:
            assert f"| `{parameter.name}` |" in section
