"""`betimes what-if`: what is asked, and what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.api.examples import WHAT_IF
from betimes.service.views.models import WhatIfJob, WhatIfSums, WhatIfView
from tests.cli.conftest import Call, Tell
from tests.cli.views import NOW


def one(job_id: int, before_s: float | None, after_s: float | None, *, is_new: bool = False) -> WhatIfJob:
    times = [None if each is None else NOW + each for each in (before_s, after_s)]
    return WhatIfJob(
        job_id=job_id, name="train", user="ada", is_new=is_new, start_before_at=None, finish_before_at=times[0],
        start_at=NOW, finish_at=times[1],
    )  # fmt: skip


def test_every_change_reaches_the_service(betimes: Call, tell: Tell, tmp_path: Path) -> None:
    tell(what_if=WHAT_IF)
    file = tmp_path / "jobs.toml"
    file.write_text('[[jobs]]\ncommand = ["x"]\nestimate = "1h"\n')
    words = ["--add-nodes", "big=2", "--add-nodes", "big=1", "--remove-node", "gpu-3", "--cancel", "41"]
    words += ["--undrain", "gpu-2", "--rent", "c4", "--rent", "c4", "--load", "1.5"]
    said = betimes("what-if", *words, "--policy", "srsf", "--submit", str(file))
    assert said.code == 0, said.err
    [(_, asked, _)] = tell.asked
    assert asked.add_nodes == {"big": 3}
    assert (asked.remove_nodes, asked.cancel, asked.policy) == (["gpu-3"], [41], "srsf")
    assert asked.undrain_nodes == ["gpu-2"]
    assert (asked.rent, asked.load) == (["c4", "c4"], 1.5)
    assert [each.estimate_s for each in asked.submit] == [3600.0]


def test_what_a_job_is_to_ask_for_reaches_the_service(betimes: Call, tell: Tell) -> None:
    tell(what_if=WhatIfView(made_at=NOW, jobs=[]))
    words = ["--job", "41", "--time", "2:30:00", "--units", "3", "--nodes", "2", "--partition", "short"]
    assert betimes("what-if", *words).code == 0
    [(_, asked, _)] = tell.asked
    [edit] = asked.edit
    wanted = {"job_id": 41, "time_limit_s": 9000.0, "units": 3, "nodes": 2, "partition": "short"}
    assert edit.model_dump() == wanted


def test_the_answer_in_words(betimes: Call, tell: Tell) -> None:
    jobs = [one(41, 60, None), one(42, 4500, 900), one(43, 7200, 7200), one(44, None, 3600, is_new=True)]
    sums = WhatIfSums(
        jobs=14, arrivals=12, never=0, mean_jct_s=7200, p99_jct_s=9000, mean_wait_s=60, cost_usd=0.5
    )
    then = sums.model_copy(update={"arrivals": 24, "never": 3, "mean_jct_s": 5400.0, "cost_usd": 1.25})
    tell(what_if=WhatIfView(made_at=NOW, jobs=jobs, before=sums, after=then, arrivals_of_s=7200.0))
    out = betimes("what-if", "--cancel", "41").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "41 train ada 08:01:00 cancelled" in lines
    assert "42 train ada 08:00:00 09:15 08:15 60 min earlier" in lines
    assert "44 train ada 08:00:00 09:00 new" in lines
    assert "For the other 1 job nothing changes." in lines
    assert "Of 2 jobs that finish both ways, 12 arrivals now, and 24 then, as in the last 2 h" in lines
    assert "time to completion, mean 2 h 90 min" in lines
    assert "cost of all machines $0.5 $1.25" in lines
    assert "jobs that are never done 0 3" in lines
    assert betimes("what-if", "--cancel", "41", "--json").json()["jobs"][1]["finish_at"] == NOW + 900


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "what-if: no change is given; name one: --submit"),
        (["--add-nodes", "big"], "--add-nodes big: write TYPE=N, as in big=2"),
        (["--add-nodes", "big=0"], "--add-nodes big=0: write TYPE=N"),
        (["--cancel", "first"], "--cancel"),
        (["--load", "none"], "--load none: give a number above 0 and up to 10"),
        (["--load", "11"], "--load 11: give a number above 0"),
        (["--submit", "missing.toml"], "missing.toml"),
        (["--job", "41"], "--job: say what the job is to ask for, by --time, --units"),
        (["--units", "2"], "are of a job; name it with --job"),
        (["--job", "41", "--time", "60"], "--time 60: is it minutes? write 60m"),
        (["--job", "41", "--time", "soon"], "--time soon"),
    ],
)
def test_bad_input_is_refused(betimes: Call, words: list[str], error: str) -> None:
    failed = betimes("what-if", *words)
    assert failed.code == 2
    assert error in failed.err
