"""Arrays: how many elements they may have in all."""

from __future__ import annotations

import pytest

from betimes.service.spec.job_spec import MOST_ELEMENTS, JobSpec, parse_array


def test_the_elements_of_all_ranges_count() -> None:
    half = MOST_ELEMENTS // 2
    indices, most = parse_array(f"0-{half - 1},{half}-{MOST_ELEMENTS - 1}%5")
    assert (len(indices), most) == (MOST_ELEMENTS, 5)
    with pytest.raises(ValueError, match="at most 100000 elements"):
        parse_array(f"0-{half - 1},{half}-{MOST_ELEMENTS}")


def test_whole_numbers_of_json_are_whole() -> None:
    body = '{"command": ["x"], "max_units": 2.0, "retries": 3}'
    spec = JobSpec.model_validate_json(body, strict=True)
    assert (spec.max_units, spec.retries) == (2, 3)
    with pytest.raises(ValueError, match="max_units"):
        JobSpec.model_validate_json('{"command": ["x"], "max_units": 2.5}', strict=True)
