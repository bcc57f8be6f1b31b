"""`betimes tune --live`, and points of the front in `betimes policy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from betimes.errors import Conflict
from betimes.foresight.tuning import Front
from betimes.service.tuning.view import SearchView, TuningView
from betimes.service.views.models import PolicyView, Proposal, Reason, TuneSpec
from tests.cli.conftest import Call, Tell
from tests.cli.views import NOW
from tests.service.tuning.fronts import front, policy

IN_FORCE = PolicyView(policy="fifo", engine="pool", since_at=NOW - 3600.0)

PROPOSAL = Proposal(
    point=1,
    names=["PCS-balanced"],
    policy=policy(1),
    at=NOW - 600.0,
    reason=Reason(code="interval", text="6 h have passed since the last time"),
    units={"jct:avg": "s", "pred_err:avg": "frac", "slowdown:p95": "ratio"},
    in_force={"jct:avg": 7200.0, "pred_err:avg": 0.5, "slowdown:p95": 3.25},
    proposed={"jct:avg": 3600.0, "pred_err:avg": 0.0123, "slowdown:p95": 2.0},
    not_applied="jct:avg<=0.3x: it would be 3600, and the limit is 2160",
)


def searching(**fields: Any) -> TuningView:
    asked = Reason(code="asked", text="asked for by ada")
    given: dict[str, Any] = {"spec": TuneSpec(), "reason": asked, "begun_at": NOW - 5.0, "of": 1000}
    return TuningView(search=SearchView(**{**given, **fields}))


def tuned(**fields: Any) -> TuningView:
    found = front()
    given: dict[str, Any] = {"at": NOW - 60.0, "front": found, "in_force": found.baselines[0]}
    return TuningView(**{**given, **fields})


def tell_looks(tell: Tell, *looks: TuningView) -> None:
    """Each look at the search finds the next of these, and the front after the last."""
    left = iter(looks)
    tell(tune=lambda spec, _: searching(spec=spec), tuning=lambda: next(left, tuned()))


@pytest.fixture
def found(tell: Tell) -> Tell:
    """A search brings a front at once."""
    tell_looks(tell)
    return tell


def test_the_service_searches_and_the_front_is_shown(betimes: Call, tell: Tell) -> None:
    half = searching(doing="searching", done=500, front=4, hypervolume=0.5)
    tell_looks(tell, half, searching(doing="judging"))
    words = (
        "--objective",
        "jct:avg",
        "--objective",
        "pred_err:p99",
        "--evaluations",
        "50",
        "--budget",
        "20s",
    )
    said = betimes(
        "tune", "--live", *words, "--jobs", "30", "--seed", "2", "--solver", "nsga2", "--sizes", "true"
    )
    assert (said.code, said.err) == (0, "")
    asked = TuneSpec(
        objectives=["jct:avg", "pred_err:p99"],
        evaluations=50,
        budget_s=20.0,
        jobs=30,
        seed=2,
        solver="nsga2",
        sizes="true",
    )
    assert tell.asked == [("tune", asked, "ada"), ("tuning",), ("tuning",), ("tuning",)]
    lines = said.out.splitlines()
    assert any(line.split()[:2] == ["1", "PCS-balanced"] for line in lines)
    assert f"PCS-pred = {policy(2)}" in lines
    assert lines[-3:] == [
        "Of 07:59:00, 60 s ago; on the last 20 jobs.",
        "`betimes policy set front:NUMBER` puts a point in force.",
        "Point 1 (PCS-balanced) against fifo, which is in force: jct:avg 2 min, not 3.33 min; "
        "it gives up pred_err:avg 20.00%, not 0.00%.",
    ]
    assert any(line.strip().startswith("fifo (in force)") for line in lines)


@pytest.mark.parametrize(
    ("points", "last"),
    [
        (((300.0, 0.5), (220.0, 0.2), (200.0, 0.0)), "Nothing here is better than fifo, which is in force."),
        (
            ((150.0, 0.0), (120.0, 0.2), (200.1, 0.0)),
            "Point 0 (PCS-JCT) against fifo, which is in force: jct:avg 2.50 min, not 3.33 min, "
            "and gives up nothing of these.",
        ),
    ],
)
def test_the_last_line_says_whether_a_point_is_better_than_what_is_in_force(
    betimes: Call, tell: Tell, points: tuple[tuple[float, float], ...], last: str
) -> None:
    found = front(points=points)
    tell_looks(tell, tuned(front=found, in_force=found.baselines[0]))
    assert betimes("policy", "front").out.splitlines()[-1] == last


def test_a_point_in_force_is_shown_with_its_reason_what_it_brings_and_what_it_gives_up(
    betimes: Call, tell: Tell
) -> None:
    chosen = PROPOSAL.model_copy(update={"not_applied": None, "before": "fifo"})
    tell(policy=IN_FORCE.model_copy(update={"policy": policy(1), "chosen": chosen}))
    lines = betimes("policy").out.splitlines()
    assert "A point of the front of 07:50, 10 min ago: 6 h have passed since the last time." in lines
    assert ["jct:avg", "2", "h", "60", "min"] in [line.split() for line in lines]
    assert lines[-1] == "It gives up nothing of these."
    worse = chosen.model_copy(update={"proposed": {**chosen.proposed, "pred_err:avg": 0.75}})
    tell(policy=IN_FORCE.model_copy(update={"chosen": worse}))
    assert betimes("policy").out.splitlines()[-1] == "It gives up pred_err:avg 75.00%, not 50.00%."


@pytest.mark.parametrize("width", [50, 60, 80])
def test_the_front_fits_the_terminal(
    betimes: Call, found: Tell, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = betimes("tune", "--live").out.splitlines()
    table = lines[: next(n for n, line in enumerate(lines) if "left out; -o wide shows all" in line)]
    assert max(map(len, table)) <= width
    assert any("PCS-balanced" in line for line in table)
    assert any("fifo" in line for line in table)
    wide = betimes("tune", "--live", "-o", "wide").out
    assert "left out" not in wide
    assert "zeta_min" in wide
    assert betimes("policy", "front", "-o", "wide").out == wide


def test_a_search_on_few_jobs_says_so(betimes: Call, found: Tell) -> None:
    found(tune=searching(note="only 3 jobs are there"))
    assert betimes("tune", "--live").err == "betimes: note: only 3 jobs are there\n"


def test_the_front_as_json(betimes: Call, found: Tell) -> None:
    answer = betimes("tune", "--live", "--json").json()
    assert answer["in_force"]["policy"] == "fifo"
    assert Front.model_validate(answer["front"]) == front()
    assert found.asked[0] == ("tune", TuneSpec(evaluations=1000, seed=0, solver="spea2"), "ada")


@pytest.mark.slow
def test_the_front_in_files(betimes: Call, found: Tell, tmp_path: Path) -> None:
    assert betimes("tune", "--live", "--out", tmp_path / "out").code == 0
    assert Front.read(tmp_path / "out") == front()
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"front.html", "front.svg", "front.png"}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--retune", "soon"], "--retune soon: give drift, or a time such as 6h"),
        (["--retune-apply", "jct:avg<=1"], "--retune-apply needs --retune 6h or --retune drift"),
        (["--retune", "6h", "--retune-apply", "jct:avg<1"], "METRIC:MEASURE<=NUMBER"),
    ],
)
def test_tuning_again_is_asked_for_strictly(
    betimes: Call, tmp_path: Path, words: list[str], part: str
) -> None:
    said = betimes("up", "--service", tmp_path / "state", *words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert part in said.err
    assert not (tmp_path / "state").exists()


def test_ctrl_c_ends_the_search_with_the_front_so_far(
    betimes: Call, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    presses = [True, False]

    def pause(_: float) -> None:
        if not presses or presses.pop(0):
            raise KeyboardInterrupt

    monkeypatch.setattr("betimes.cli.live.following.pause", pause)
    tell_looks(tell)
    tell(stop_tuning=searching(stopping=True))
    said = betimes("tune", "--live")
    assert (said.code, said.err) == (0, "betimes: note: asked to end with the front so far\n")
    assert "PCS-balanced" in said.out
    assert [name for name, *_ in tell.asked] == ["tune", "stop_tuning", "tuning"]
    assert betimes("tune", "--live").code == 130


def test_a_search_that_brings_nothing_is_said(betimes: Call, tell: Tell) -> None:
    tell_looks(tell, tuned(problem="--budget 1e-06s: too short for one evaluation"))
    said = betimes("tune", "--live")
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert "too short for one evaluation" in said.err
    tell_looks(tell, searching(begun_at=NOW))
    said = betimes("tune", "--live")
    assert said.code == 1
    assert "another search has taken the place of this one" in said.err
    tell(tune=Conflict("no job has been submitted so far; submit some"))
    assert betimes("tune", "--live").code == 2


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "give a trace, or --live"),
        (["sample:tiny", "--live"], "give either sample:tiny or --live"),
        (["--live", "--units", "4"], "--units does not go with --live"),
        (["--live", "--no-cache"], "--cache does not go with --live"),
        (["--live", "--baselines", "fifo"], "--baselines does not go with --live"),
        (["sample:tiny", "--service", "x"], "--service is for --live"),
        (["--live", "--budget", "soon"], "--budget"),
        (["--live", "--out", "/dev/null/x"], "--out"),
    ],
)
def test_what_does_not_go_together_is_refused(betimes: Call, words: list[str], part: str) -> None:
    said = betimes("tune", *words)
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert part in said.err


def test_the_latest_front(betimes: Call, tell: Tell) -> None:
    tell_looks(tell)
    assert "PCS-balanced" in betimes("policy", "front").out
    assert betimes("policy", "front", "--json").json()["front"]["jobs"] == 20
    tell_looks(tell, tuned(front=None, at=None, in_force=None))
    said = betimes("policy", "front")
    assert (said.code, said.err) == (
        2,
        "betimes: there is no front yet; `betimes tune --live` searches for one\n",
    )


def test_what_is_proposed_is_shown_beside_what_is_in_force(betimes: Call, tell: Tell) -> None:
    tell(policy=IN_FORCE.model_copy(update={"proposal": PROPOSAL}))
    lines = betimes("policy").out.splitlines()
    assert "Tuned again 07:50, 10 min ago: 6 h have passed since the last time." in lines
    cells = [line.split() for line in lines]
    assert ["jct:avg", "2", "h", "60", "min"] in cells
    assert ["pred_err:avg", "50.00%", "1.23%"] in cells
    assert ["slowdown:p95", "3.25", "2"] in cells
    assert "`betimes policy set front:1` puts it in force." in lines
    assert lines[-1] == "Not done by itself: jct:avg<=0.3x: it would be 3600, and the limit is 2160."
    assert json.loads(betimes("policy", "--json").out)["proposal"]["proposed"]["jct:avg"] == 3600.0
    unknown = PROPOSAL.model_copy(update={"in_force": None, "not_applied": None})
    tell(policy=IN_FORCE.model_copy(update={"proposal": unknown}))
    assert "some job never ends" in betimes("policy").out
