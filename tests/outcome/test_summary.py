"""Summaries: the contract's keys, the published worked cases, and what is counted."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.errors import InputError
from betimes.outcome import JobState, Result, Timing, job_metric, parse_measure, selected, summarise, to_json
from tests.outcome.cases import columns, four_jobs, on_nodes, random_results, result

ALWAYS = [
    "policy", "jobs", "unfinished", "refused", "predicted", "makespan_s", "jct_mean_s", "jct_p50_s",
    "jct_p99_s", "wait_mean_s", "slowdown_mean", "slowdown_p50", "slowdown_p95", "utilisation_frac",
    "preemptions", "timing",
]  # fmt: skip
PREDICTION = ["pred_err_mean_frac", "pred_err_p90_frac", "pred_err_p99_frac", "pred_bias_mean_frac"]
UNFAIRNESS = ["unfairness_mean_frac", "unfairness_p99_frac"]


def test_the_keys_are_the_contract() -> None:
    assert list(summarise(result(columns(2)))) == ALWAYS
    full = summarise(four_jobs("fifo"))
    assert list(full) == [*ALWAYS, *PREDICTION, *UNFAIRNESS, "unfairness_fair_run_max_frac"]
    assert list(full["timing"]) == ["load_s", "compile_s", "wall_s", "jobs_per_s", "events"]


def test_the_figures_of_nodes() -> None:
    summary = summarise(on_nodes())
    assert list(summary)[: len(ALWAYS) + 9] == [
        *ALWAYS, "finished", "killed", "utilisation_gpu_frac", "utilisation_memory_frac", "preempted_jobs",
        "reschedule_p50_s", "reschedule_p95_s", "vacated_to_resumed_p50_s", "vacated_to_resumed_p95_s",
    ]  # fmt: skip
    assert (summary["jobs"], summary["killed"], summary["refused"]) == (5, 1, 1)
    assert summary["makespan_s"] == 80.0
    assert (summary["utilisation_gpu_frac"], summary["utilisation_memory_frac"]) == (0.925, 0.1)
    assert summary["utilisation_frac"] == 0.925  # the busiest resource's
    assert (summary["preemptions"], summary["preempted_jobs"]) == (2, 1)
    assert (summary["reschedule_p50_s"], summary["vacated_to_resumed_p50_s"]) == (8.0, 5.0)
    assert (summary["slowdown_p50_trial"], summary["slowdown_p50_best_effort"]) == (1.6, 76 / 60)
    assert summary["jct_mean_s"] == (76 + 8 + 8) / 3  # of those that finished
    later = summarise(on_nodes(), (0.2, 1.0))
    assert (later["preempted_jobs"], later["reschedule_p50_s"], later["killed"]) == (0, None, 1)
    unforced = summarise(on_nodes(absences=None))
    assert not [key for key in unforced if key.startswith(("reschedule", "vacated", "preempted"))]


@pytest.mark.parametrize(
    ("policy", "jct_mean_s", "error_percent"),
    [("fifo", 15.75, 0), ("srsf", 11.25, 45.625), ("themis", 13.5, 24.1667)],
)
def test_four_jobs(policy: str, jct_mean_s: float, error_percent: float) -> None:
    summary = summarise(four_jobs(policy))
    assert summary["jct_mean_s"] == jct_mean_s
    assert summary["pred_err_mean_frac"] == pytest.approx(error_percent / 100, abs=5e-7)
    assert summary["pred_bias_mean_frac"] == summary["pred_err_mean_frac"]  # nobody came early
    assert (summary["makespan_s"], summary["utilisation_frac"]) == (27.0, 1.0)


@pytest.mark.parametrize(
    ("policy", "fair_run_percent", "event_averaged_percent"),
    [("fifo", 500.0, 592.3077), ("srsf", 10.2041, 66.1538), ("themis", 0.0, 9.2857)],
)
def test_peak_unfairness_by_both_definitions(
    policy: str, fair_run_percent: float, event_averaged_percent: float
) -> None:
    case = four_jobs(policy)
    assert summarise(case)["unfairness_fair_run_max_frac"] == pytest.approx(fair_run_percent / 100, abs=5e-7)
    assert job_metric(case, "unfairness_frac").max() == pytest.approx(event_averaged_percent / 100, abs=5e-7)


def test_mean_unfairness_of_fifo() -> None:
    assert summarise(four_jobs("fifo"))["unfairness_mean_frac"] == pytest.approx(1.480769, abs=5e-7)


@pytest.mark.parametrize(
    ("jct_s", "predicted_s", "mean_s", "error_percent"),
    [
        ((10, 14, 12, 15, 19), (10, 14, 14, 19, 25), 14.0, 0.0),
        ((20.5, 4, 4, 8, 6), (10, 4, 6, 10.5, 12), 8.5, 25.6154),
        ((20.5, 4, 4, 12, 6), (10, 4, 6, 16, 12), 9.3, 21.0),
        ((19.5, 6, 6, 16.5, 6), (10, 9, 10, 19, 12), 10.8, 32.6667),
        ((20.5, 5, 4, 14.25, 6), (10, 4, 6, 16.75, 12), 9.95, 28.3529),
        ((14.5, 4, 4, 16.5, 6), (10, 4, 6, 19, 12), 9.0, 11.0),
    ],
)
def test_five_jobs_on_four_units(
    jct_s: tuple[float, ...], predicted_s: tuple[float, ...], mean_s: float, error_percent: float
) -> None:
    submit_s = np.array([0.0, 0.0, 2.0, 4.0, 6.0])
    jobs = columns(5, submit_s=submit_s, finish_s=submit_s + jct_s, predicted_finish_s=predicted_s)
    summary = summarise(result(jobs, units=4))
    assert summary["jct_mean_s"] == pytest.approx(mean_s)
    assert summary["pred_err_mean_frac"] == pytest.approx(error_percent / 100, abs=5e-7)


def test_early_and_late_jobs_cancel_in_the_bias_only() -> None:
    summary = summarise(result(columns(2, finish_s=[2.0, 1.0], predicted_finish_s=[1.0, 2.0])))
    assert summary["pred_err_mean_frac"] == 0.75
    assert summary["pred_bias_mean_frac"] == 0.25


def test_unfinished_and_refused_jobs_are_counted_and_not_averaged() -> None:
    jobs = columns(
        4,
        finish_s=[2.0, np.nan, np.nan, 4.0],
        start_s=[0.0, 1.0, np.nan, 0.0],
        predicted_finish_s=[2.0, 9.0, np.nan, np.nan],
        preemptions=[1, 2, 0, 0],
        state=[JobState.FINISHED, JobState.UNFINISHED, JobState.REFUSED, JobState.FINISHED],
    )
    summary = summarise(result(jobs))
    counts = [summary[key] for key in ("jobs", "unfinished", "refused", "predicted", "preemptions")]
    assert counts == [4, 1, 1, 2, 3]
    assert (summary["jct_mean_s"], summary["wait_mean_s"], summary["pred_err_mean_frac"]) == (3.0, 0.0, 0.0)


def test_a_refused_job_does_not_stretch_the_makespan() -> None:
    states = [JobState.REFUSED, JobState.FINISHED]
    jobs = columns(2, submit_s=[0.0, 5.0], start_s=[np.nan, 5.0], finish_s=[np.nan, 8.0], state=states)
    assert summarise(result(jobs))["makespan_s"] == 3.0


def test_nothing_finished_gives_null_and_valid_json() -> None:
    jobs = columns(1, start_s=[np.nan], finish_s=[np.nan], state=[JobState.UNFINISHED])
    summary = summarise(result(jobs, timing=Timing(0.0, 0.0, 0.0, 0)))
    assert summary["makespan_s"] is summary["jct_mean_s"] is summary["utilisation_frac"] is None
    assert summary["timing"]["jobs_per_s"] is None
    assert json.loads(to_json(summary)) == summary


def test_classes_are_told_apart_where_there_are_two() -> None:
    jobs = columns(4, finish_s=[1.0, 2.0, 4.0, 6.0], qos=[1, 0, 1, 0], preemptions=[0, 2, 0, 1])
    summary = summarise(result(jobs))
    assert (summary["jobs_trial"], summary["jobs_best_effort"]) == (2, 2)
    assert summary["slowdown_p95_trial"] == pytest.approx(1.0 + 0.95 * 3.0)
    assert summary["slowdown_p50_best_effort"] == 4.0
    assert summary["jct_mean_s_trial"] == 2.5
    assert (summary["preemptions_trial"], summary["preemptions_best_effort"]) == (0, 3)
    assert not any(key.endswith("_trial") for key in summarise(result(columns(4))))


def test_money_appears_where_it_is_known() -> None:
    assert summarise(result(columns(3, cost_usd=[1.5, np.nan, 2.0])))["cost_usd"] == 3.5
    assert "cost_usd" not in summarise(result(columns(3)))


def test_jobs_a_second_are_the_whole_runs() -> None:
    timing = summarise(four_jobs("fifo"), measure=(0.0, 0.25))["timing"]
    expected = {"load_s": 0.25, "compile_s": 1.5, "wall_s": 0.5, "jobs_per_s": 8.0, "events": 8}
    assert timing == expected


def test_measure_takes_a_window_of_the_submit_order() -> None:
    summary = summarise(four_jobs("fifo"), measure=(0.25, 0.75))
    assert (summary["jobs"], summary["jct_mean_s"], summary["makespan_s"]) == (2, 18.0, 27.0)
    assert selected(result(columns(100)), (0.29, 0.57)).tolist() == list(range(29, 57))


@given(st.integers(1, 500), st.lists(st.integers(1, 99), min_size=1, max_size=4, unique=True))
def test_touching_windows_share_no_job_and_lose_none(n: int, cuts: list[int]) -> None:
    case = result(columns(n))
    edges = [0.0, *(cut / 100 for cut in sorted(cuts)), 1.0]
    rows: list[int] = []
    for low, high in itertools.pairwise(edges):
        if int(high * n + 1e-6) > int(low * n + 1e-6):
            rows += selected(case, (low, high)).tolist()
    assert rows == list(range(n))


def test_status_keeps_what_the_trace_calls_completed() -> None:
    case = result(columns(4, status=[1, 0, 5, 1]))
    assert selected(case, status="completed").tolist() == [0, 3]
    assert selected(case, (0.0, 0.5), "completed").tolist() == [0]
    assert selected(case).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("measure", "status", "codes", "message"),
    [
        ((0.5, 0.5), "all", [1, 1], "0 <= first < second <= 1"),
        ((-0.1, 0.5), "all", [1, 1], "0 <= first < second <= 1"),
        ((0.0, 1.1), "all", [1, 1], "0 <= first < second <= 1"),
        ((0.1, 0.2), "all", [1, 1], "selects none"),
        ((0.0, 1.0), "done", [1, 1], "expected one of all, completed"),
        ((0.0, 1.0), "completed", [-1, -1], "does not say"),
        ((0.0, 1.0), "completed", [0, 5], "none of the measured jobs"),
    ],
)
def test_a_selection_of_nothing_is_an_error(
    measure: tuple[float, float], status: str, codes: list[int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        summarise(result(columns(2, status=codes)), measure, status)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10%..90%", (0.1, 0.9)), ("0%..100%", (0.0, 1.0)), (" 2.5 % .. 97.5 % ", (0.025, 0.975))],
)
def test_parse_measure(text: str, expected: tuple[float, float]) -> None:
    assert parse_measure(text) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10%",
        "10..90",
        "10%-90%",
        "90%..10%",
        "50%..50%",
        "0%..101%",
        "-5%..50%",
        "nan%..90%",
        "\u0661%..\u0669%",
    ],
)
def test_parse_measure_says_what_it_expected(text: str) -> None:
    with pytest.raises(InputError, match=f"measure {text!r}: ") as caught:
        parse_measure(text)
    assert "\n" not in str(caught.value)


def test_an_unknown_metric_is_an_error() -> None:
    with pytest.raises(InputError, match="expected one of jct_s"):
        job_metric(four_jobs("fifo"), "speed")


@given(random_results())
def test_a_summary_is_valid_json_in_plain_types(case: Result) -> None:
    summary = summarise(case)
    assert json.loads(to_json(summary)) == summary
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


@given(random_results(), st.floats(0.01, 100.0))
def test_ratios_do_not_depend_on_the_unit_of_time(case: Result, factor: float) -> None:
    names = ("submit_s", "start_s", "finish_s", "predicted_finish_s", "work_s", "run_alone_s", "units_s")
    scaled = dataclasses.replace(case.jobs, **{name: getattr(case.jobs, name) * factor for name in names})
    resources = tuple(dataclasses.replace(each, held_s=each.held_s * factor) for each in case.resources)
    absences = case.absences
    if absences is not None:
        times = {name: getattr(absences, name) * factor for name in ("preempted_s", "vacated_s", "resumed_s")}
        absences = dataclasses.replace(absences, **times)
    before = summarise(dataclasses.replace(case, segments=None))
    after = summarise(
        dataclasses.replace(case, segments=None, jobs=scaled, resources=resources, absences=absences)
    )
    for key, value in before.items():
        if isinstance(value, float):
            times = factor if key.endswith("_s") or "_s_" in key else 1.0
            assert after[key] == pytest.approx(times * value, rel=1e-6, abs=1e-6), key
