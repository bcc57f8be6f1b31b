"""Results hold together, compare by value, and refuse what cannot be."""

from __future__ import annotations

import dataclasses
import re
from base64 import b64decode

import numpy as np
import pytest

from betimes.outcome import JobState, SegmentColumns, Timing, summarise
from betimes.units import humanise_s
from tests.outcome.cases import columns, four_jobs, result


def test_columns_must_have_one_length() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        columns(3, finish_s=[1.0, 2.0])


def test_columns_must_have_one_dimension() -> None:
    with pytest.raises(ValueError, match="2 dimensions"):
        columns(2, finish_s=[[1.0, 2.0]])


def test_jobs_must_be_in_submit_order() -> None:
    with pytest.raises(ValueError, match="submit order"):
        columns(2, submit_s=[1.0, 0.0])


@pytest.mark.parametrize(
    ("finish_s", "state"), [(np.nan, JobState.FINISHED), (1.0, JobState.UNFINISHED), (1.0, JobState.REFUSED)]
)
def test_a_finish_and_its_state_must_agree(finish_s: float, state: JobState) -> None:
    with pytest.raises(ValueError, match="if, and only if"):
        columns(1, finish_s=[finish_s], state=[state])


def test_columns_are_given_their_types() -> None:
    jobs = columns(2, job_id=np.array(["a", "b"], dtype=object), max_units=[2.0, 3.0])
    assert (jobs.job_id.dtype.kind, jobs.max_units.dtype, jobs.state.dtype) == ("U", np.int64, np.int8)


@pytest.mark.parametrize(
    ("row", "start_s", "end_s"),
    [([0], [2.0], [1.0]), ([0, 0], [2.0, 1.0], [3.0, 3.0]), ([1, 0], [0, 0], [1, 1])],
)
def test_segments_must_be_ordered(row: list[int], start_s: list[float], end_s: list[float]) -> None:
    with pytest.raises(ValueError, match="segment"):
        SegmentColumns(np.array(row), np.array(start_s), np.array(end_s), np.ones(len(row)))


@pytest.mark.parametrize("row", [-1, 2])
def test_a_segment_must_belong_to_a_job(row: int) -> None:
    segments = SegmentColumns(np.array([row]), np.zeros(1), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        result(columns(2), segments=segments)


def test_fair_finish_times_must_be_one_a_job() -> None:
    with pytest.raises(ValueError, match="fair_finish_s"):
        result(columns(2), fair_finish_s=np.ones(3))


def test_results_are_equal_whatever_they_took() -> None:
    one = four_jobs("themis")
    assert one == dataclasses.replace(one, timing=Timing(9.0, 9.0, 9.0, 9))
    assert one != dataclasses.replace(one, seed=1)
    assert one != dataclasses.replace(one, segments=None)
    assert one != dataclasses.replace(one, fair_finish_s=None)
    assert one != dataclasses.replace(one, fair_finish_s=np.ones(4))
    assert one != dataclasses.replace(one, jobs=columns(4))
    assert one != four_jobs("fifo")


def test_taking_rows_takes_them_from_every_column() -> None:
    jobs = four_jobs("fifo").jobs
    assert jobs.take(np.array([True, False, True, False])) == jobs.take(np.array([0, 2]))
    assert jobs.take(np.array([0, 2])).finish_s.tolist() == [10.0, 19.0]
    assert len(jobs.take(np.array([3]))) == 1


def test_a_result_shows_itself_in_a_paragraph() -> None:
    one = four_jobs("themis")
    assert repr(one).startswith("Result: workload ")
    assert f"{len(one.jobs)} jobs, of which {int(one.jobs.finished.sum())} finished" in repr(one)
    assert "policy themis" in repr(one)
    assert "\n" not in repr(one)


def test_a_notebook_shows_a_result_as_a_table_and_a_picture() -> None:
    one = dataclasses.replace(four_jobs("fifo"), workload_name="<b>&")
    shown = one._repr_html_()
    assert "<td>&lt;b&gt;&amp;, 4 jobs" in shown
    assert "<th>Mean wait</th>" in shown
    (picture,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', shown)
    assert b"<svg" in b64decode(picture)
    none = result(columns(2, finish_s=[np.nan] * 2, state=[JobState.UNFINISHED] * 2))
    assert none._repr_html_().endswith("</table>"), "there is nothing to draw"


def test_nothing_finished_is_shown_as_unknown() -> None:
    none = result(columns(2, finish_s=[np.nan] * 2, state=[JobState.UNFINISHED] * 2))
    assert "mean completion time -" in repr(none)


def test_what_is_shown_is_what_the_summary_has() -> None:
    state = [JobState.REFUSED, JobState.FINISHED]
    one = result(
        columns(2, submit_s=[0.0, 100.0], start_s=[np.nan, 110.0], finish_s=[np.nan, 160.0], state=state)
    )
    summary = summarise(one)
    assert summary["makespan_s"] == 60.0  # from the first job that was not refused
    shown = (("makespan", "makespan_s"), ("mean completion time", "jct_mean_s"), ("mean wait", "wait_mean_s"))
    for name, key in shown:
        assert f"{name} {humanise_s(summary[key])}" in repr(one)


def test_columns_become_a_data_frame() -> None:
    jobs = four_jobs("fifo").jobs
    frame = jobs.to_frame()
    assert list(frame.columns) == list(jobs.columns())
    assert frame["finish_s"].tolist() == jobs.finish_s.tolist()
    assert repr(jobs).startswith("JobColumns(4 rows: job_id, submit_s")
