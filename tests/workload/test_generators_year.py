"""The generated year: its published characteristics, and the same jobs in chunks."""

from __future__ import annotations

import numpy as np
import pytest

from betimes.workload.generators import generate, generate_in_chunks, year


def test_published_characteristics() -> None:
    jobs = year.year(jobs=100_000, seed=1)
    run_s = jobs.work_s / jobs.max_units
    for below_s, share in ((180.0, 0.62), (900.0, 0.70), (3600.0, 0.95)):
        assert np.mean(run_s < below_s) == pytest.approx(share, abs=0.01)
    days = jobs.submit_s / 86_400.0
    assert days.max() == pytest.approx(365.0 * 100_000 / year.JOBS, rel=0.01)
    assert jobs.max_units.max() == 16


def test_chunks_hold_the_same_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they are drawn in several parts."""
    monkeypatch.setattr(year, "DRAWN_AT_ONCE", 300)
    whole = generate("year:jobs=1000", units=8, seed=4)
    parts = list(year.year_in_chunks(units=8, seed=4, jobs=1000, chunk=128))
    assert [len(part) for part in parts] == [128, 128, 44] * 3 + [100]
    for name in ("job_id", "submit_s", "work_s", "max_units", "user"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name), name)
    assert whole.max_units.max() == 8
    assert np.all(np.diff(whole.submit_s) >= 0)


def test_other_generators_make_no_chunks() -> None:
    assert generate_in_chunks("demo", units=8) is None
    made = generate_in_chunks("year:jobs=10", units=8, seed=1)
    assert made is not None
    assert [len(part) for part in made] == [10]
