"""Marking trials by stated rules and drawing grace periods: worked cases, the public traces, refusals."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from betimes.errors import InputError
from betimes.workload import Workload, draw_grace, mark_trials, read_trace
from betimes.workload.trial import RULES


def five() -> Workload:
    return Workload.from_columns(
        submit_s=[0, 1, 2, 3, 4],
        work_s=[300, 301, 1200, 1200, 30],
        max_units=[1, 1, 4, 2, 1],
        user=["ada", "ben", "ada", "ada", ""],
        extra={"qos_name": ["LS", "BE", "Burstable", "Guaranteed", "BE"]},
    )


def many(n: int = 2000, users: int = 40) -> Workload:
    rng = np.random.default_rng(1)
    return Workload.from_columns(
        submit_s=np.arange(n), work_s=rng.exponential(600, n), user=rng.integers(0, users, n)
    )


def read(path: Path) -> Workload:
    if not path.is_file():
        pytest.skip(f"the public trace {path.name} is not at {path.parent}")
    return read_trace(path)


# --- which jobs are trials -----------------------------------------------------------------------


def test_short_jobs_are_trials() -> None:
    assert mark_trials(five(), "run:300").qos.tolist() == [1, 0, 1, 0, 1]
    sublinear = mark_trials(five(), "run:300", speedup_at_max=[1, 1, 3, 1, 1])
    assert sublinear.qos.tolist() == [1, 0, 0, 0, 1]


def test_quality_of_service_of_openb() -> None:
    assert mark_trials(five(), "qos").qos.tolist() == [1, 0, 1, 1, 0]


def test_all_jobs_of_a_user_are_of_one_class() -> None:
    seen = {tuple(mark_trials(five(), "user:0.2", seed).qos.tolist()) for seed in range(20)}
    assert seen == {(1, 0, 1, 1, 0), (0, 1, 0, 0, 0)}
    # Unknown users stay best-effort, even where more trials are asked for than there are known users' jobs.
    assert mark_trials(five(), "user:1").qos.tolist() == [1, 1, 1, 1, 0]
    w = many()
    marked = mark_trials(w, "user:0.3", seed=3)
    of_user = [set(marked.qos[w.user == user]) for user in range(40)]
    assert all(len(classes) == 1 for classes in of_user)
    largest = np.bincount(w.user).max() / len(w)
    assert 0.3 <= marked.qos.mean() < 0.3 + largest


def test_one_user_more_than_the_share_is_not_taken() -> None:
    w = Workload.from_columns(submit_s=np.arange(100), work_s=1, user=np.arange(100))
    assert mark_trials(w, "user:0.29").qos.sum() == 29
    assert mark_trials(w, "user:0.291").qos.sum() == 30


def test_a_share_at_random() -> None:
    w = many()
    marked = mark_trials(w, "random:0.3", seed=1)
    assert marked.qos.sum() == 600
    assert abs(marked.qos[:1000].mean() - 0.3) < 0.06
    assert mark_trials(w, "random:1").qos.all()


@pytest.mark.parametrize("rule", ["run:300", "user:0.3", "random:0.3"])
def test_marking_changes_the_class_only_and_is_noted(rule: str, tmp_path: Path) -> None:
    w = many()
    marked = mark_trials(w, rule, seed=4)
    assert marked == mark_trials(w, rule, seed=4)
    assert marked != w
    assert 0 < marked.qos.sum() < len(w)
    unmarked = Workload.from_columns(submit_s=marked.submit_s, work_s=marked.work_s, user=marked.user)
    assert unmarked == w
    assert marked.notes.header["trial_rule"] == f"{rule}, seed 4"
    if rule != "run:300":
        assert marked != mark_trials(w, rule, seed=5)
    marked.to_csv(tmp_path / "a.csv")
    assert read_trace(tmp_path / "a.csv") == marked


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("", "trial rule '': expected one of run:SECONDS, user:SHARE, random:SHARE, qos"),
        ("rum:300", "trial rule 'rum:300': expected one of .* .did you mean 'run'"),
        ("run", "trial rule 'run': expected one of"),
        ("qos:1", "trial rule 'qos:1': expected one of"),
        ("run:", "trial rule 'run:': expected seconds above 0, and at most 1e\\+15, found ''"),
        ("run:0", "expected seconds above 0, and at most 1e\\+15, found '0'"),
        ("run:inf", "expected seconds above 0, and at most 1e\\+15, found 'inf'"),
        ("run:1e300", "at most 1e\\+15, found '1e300'"),
        ("user:nan", "expected a share above 0 and up to 1, found 'nan'"),
        ("random:1.01", "expected a share above 0 and up to 1, found '1.01'"),
        ("random:30%", "expected a share above 0 and up to 1, found '30%'"),
    ],
)
def test_bad_rules_are_refused(rule: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        mark_trials(five(), rule)


def test_what_a_trace_does_not_say_cannot_be_a_rule() -> None:
    plain = Workload.from_columns(submit_s=[0, 1], work_s=1, name="log")
    with pytest.raises(InputError, match="workload log: no job has a user"):
        mark_trials(plain, "user:0.5")
    with pytest.raises(InputError, match="workload log: it has no column qos_name"):
        mark_trials(plain, "qos")
    odd = Workload.from_columns(submit_s=[0, 1], work_s=1, extra={"qos_name": ["BE", "best"]})
    with pytest.raises(InputError, match=r"job 1, field qos_name: expected one of BE, LS, .* found 'best'"):
        mark_trials(odd, "qos")
    for call in (lambda: mark_trials(plain, "random:0.5", seed=-1), lambda: draw_grace(plain, 1, seed=-1)):
        with pytest.raises(InputError, match="expected a seed from 0, found -1"):
            call()


def test_every_rule_is_described() -> None:
    assert [rule.partition(":")[0] for rule in RULES] == ["run", "user", "random", "qos"]
    assert all(RULES.values())


# --- grace periods -------------------------------------------------------------------------------


def test_grace_periods_follow_the_cut_normal() -> None:
    from scipy.stats import truncnorm  # a second of each process that collects tests

    n = 50_000
    w = draw_grace(many(n), 180, 1200, seed=2)
    law = truncnorm(-1, (1200 - 180) / 180, 180, 180)
    assert w.grace_s.mean() == pytest.approx(law.mean(), abs=4 * law.std() / math.sqrt(n))
    assert w.grace_s.std() == pytest.approx(law.std(), rel=0.02)
    assert w.grace_s.min() >= 0
    assert w.grace_s.max() <= 1200
    assert w.notes.header["grace_rule"] == "180:1200 s, seed 2"


def test_grace_periods_by_default_end_where_the_paper_has_it() -> None:
    w = many()
    assert draw_grace(w, 180) == draw_grace(w, 180, 1200.0)
    assert draw_grace(w, 180) != draw_grace(w, 180, seed=1)
    assert draw_grace(w, 60, 60).grace_s.max() <= 60
    assert set(draw_grace(w, 0).grace_s) == {0.0}


@pytest.mark.parametrize(("mean_s", "high_s"), [(-1, 5), (10, 5), (math.nan, 5), (1, math.inf), (1e15, 1e16)])
def test_impossible_grace_periods_are_refused(mean_s: float, high_s: float) -> None:
    with pytest.raises(InputError, match="grace periods: expected a mean of 0 s or more"):
        draw_grace(five(), mean_s, high_s)


# --- public traces -------------------------------------------------------------------------------


def test_classes_of_a_batch_log(public_data: Path) -> None:
    w = read(public_data / "swf" / "KTH-SP2-1996-2.swf.gz")
    short = mark_trials(w, "run:300")
    np.testing.assert_array_equal(short.qos == 1, w.work_s / w.max_units <= 300)
    assert 0.2 < short.qos.mean() < 0.6
    for rule in ("user:0.3", "random:0.3"):
        marked = mark_trials(w, rule, seed=1)
        assert 0.29 < marked.qos.mean() < 0.6
        assert draw_grace(marked, 180).qos.sum() == marked.qos.sum()


def test_classes_of_openb(public_data: Path) -> None:
    w = read(public_data / "gpu" / "alibaba_openb" / "openb_pod_list_default.csv.gz")
    marked = mark_trials(w, "qos")
    assert (marked.qos == (w.extra["qos_name"] != "BE")).all()
    assert 0.5 < marked.qos.mean() < 0.7
    with pytest.raises(InputError, match="no job has a user"):
        mark_trials(w, "user:0.3")
