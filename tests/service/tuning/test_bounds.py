"""Bounds are read strictly, and mean what they say."""

from __future__ import annotations

import pytest

from betimes.errors import InputError
from betimes.service.tuning.retune import parse_bound, parse_retune


@pytest.mark.parametrize(
    ("text", "proposed", "in_force", "keeps"),
    [
        ("jct:avg<=1.05", 104.0, 100.0, True),  # times are factors
        ("jct:avg<=1.05", 106.0, 100.0, False),
        ("jct:avg <= 0.9", 90.0, 100.0, True),
        ("pred_err:p99<=0.2", 0.2, 0.01, True),  # others are values
        ("pred_err:p99<=0.2", 0.21, 5.0, False),
        ("pred_err:p99<=0.5x", 0.4, 1.0, True),
        ("pred_err:p99<=0.5x", 0.6, 1.0, False),
        ("utilisation:avg>=0.8", 0.81, 0.9, True),
        ("utilisation:avg>=0.95x", 0.81, 0.9, False),
    ],
)
def test_a_bound_is_kept_or_broken(text: str, proposed: float, in_force: float, keeps: bool) -> None:
    bound = parse_bound(text)
    name = str(bound.objective)
    why = bound.broken_by({name: proposed}, {name: in_force})
    assert (why is None) == keeps
    assert why is None or why.startswith(f"{bound}: it would be ")


def test_a_factor_of_what_is_not_known_is_not_kept() -> None:
    why = parse_bound("jct:avg<=1.05").broken_by({"jct:avg": 1.0}, None)
    assert why == "jct:avg<=1.05x: what the policy in force would bring is not known"
    assert parse_bound("pred_err:avg<=0.1").broken_by({"pred_err:avg": 0.1}, None) is None


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("jct:avg<1", "METRIC:MEASURE<=NUMBER"),
        ("jct:avg", "METRIC:MEASURE<=NUMBER"),
        ("jct:avg<=1e9", "METRIC:MEASURE<=NUMBER"),
        ("jct:avg<=-1", "METRIC:MEASURE<=NUMBER"),
        ("jct:avg<=1.05xx", "METRIC:MEASURE<=NUMBER"),
        ("jct:avg<=0", "above 0"),
        ("jtc:avg<=1", "did you mean 'jct'"),
        ("jct:avg>=1", "lower jct:avg is better"),
        ("utilisation:avg<=0.9", "higher utilisation:avg is better"),
    ],
)
def test_what_is_no_bound_is_refused(text: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        parse_bound(text)


def test_when_to_tune_again() -> None:
    assert parse_retune(()) is None
    both = parse_retune(["6h", "drift"])
    assert both is not None
    assert (both.interval_s, both.on_drift, both.bounds) == (21_600.0, True, ())
    assert both.spec.objectives == ["jct:avg", "pred_err:avg"]
    bound = parse_retune(["Drift"], jobs=50, apply=["slowdown:p95<=1.1x", "wait:max<=1"])
    assert bound is not None
    assert (bound.interval_s, bound.spec.objectives, bound.spec.jobs) == (
        None,
        ["slowdown:p95", "wait:max"],
        50,
    )


@pytest.mark.parametrize(
    ("when", "options", "part"),
    [
        (["soon"], {}, "give drift, or a time"),
        (["1s"], {}, "at least 60s"),
        (["1h", "2h"], {}, "one time, drift, or one of each"),
        (["drift", "drift"], {}, "one time, drift, or one of each"),
        ([], {"apply": ["jct:avg<=1"]}, "needs --retune 6h or --retune drift"),
        ([], {"jobs": 5}, "--retune-jobs"),
        (["1h"], {"objectives": ["jct:med"]}, "no measure"),
        (["1h"], {"objectives": ["jct:avg"], "apply": ["wait:avg<=1"]}, "not among the objectives"),
        (["1h"], {"objectives": ["jct:avg", "wait:avg"], "apply": ["wait:avg<=1"]}, "jct:avg has no bound"),
        (["1h"], {"apply": ["jct:avg<=1", "jct:avg<=2"]}, "more than one bound"),
    ],
)
def test_what_does_not_say_when_or_how_is_refused(when: list[str], options: dict, part: str) -> None:
    with pytest.raises(InputError, match=part):
        parse_retune(when, **options)
