"""Client verbs and simulations are run without what takes long to load, and mean what they mean to Typer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from betimes.cli import verbs
from betimes.service.views.models import Page
from tests.cli.conftest import Call, Said, Tell
from tests.cli.live.test_submit import tell_promise
from tests.cli.views import event, health, job, listed, quote, story
from tests.service.serving import Background, Serving

HEAVY = ("numpy", "pydantic", "httpx", "typer", "click", "rich", "http.client", "dataclasses", "platformdirs")


def test_no_verb_loads_what_takes_long(tmp_path: Path) -> None:
    program = (
        "import sys, json; from betimes.cli.main import main; main(sys.argv[1:]);"
        f"print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]), file=sys.stderr)"
    )
    it = Serving(tmp_path / "service")
    served = Background(it, tmp_path / "state")
    calls = (
        *(["submit", "--estimate", "1s", "--memory", "1GiB", "--", "true"], ["quote", "--", "true"]),
        *(["jobs"], ["jobs", "--json"], ["job", "1"], ["wait", "1", "--timeout", "0"], ["events"], ["nodes"]),
        *(
            ["policy"],
            ["policy", "set", "srsf"],
            ["fleet"],
            ["policy", "portfolio"],
            ["hold", "1"],
            ["release", "1"],
        ),
        *(["edit", "1", "--priority", "2", "--label", "a=b"], ["cancel", "--name", "true", "-y"]),
        *(["nodes", "drain", "here"], ["logs", "1"]),
    )
    with served():
        env = {"BETIMES_STATE": str(served.state), "PATH": ""}
        for call in calls:
            done = subprocess.run(
                [sys.executable, "-c", program, *call], capture_output=True, text=True, check=False, env=env
            )
            assert json.loads(done.stderr.splitlines()[-1]) == [], (call, done.stderr)
    it.close()


def test_a_simulation_loads_nothing_of_the_command_line_that_takes_long() -> None:
    program = (
        "import sys, json; from betimes.cli.main import main; main(sys.argv[1:]);"
        "print(json.dumps([m for m in ('typer', 'pydantic', 'scipy.linalg') if m in sys.modules]), file=sys.stderr)"
    )
    for call in (["--policy", "fifo"], ["--policy", "fitgpp", "--units", "16", "--engine", "nodes"]):
        done = subprocess.run(
            [sys.executable, "-c", program, "simulate", "sample:tiny", *call],
            capture_output=True,
            text=True,
            check=False,
        )
        assert json.loads(done.stderr.splitlines()[-1]) == [], done.stderr


@pytest.mark.parametrize(
    "words",
    [
        [
            "sample:tiny",
            "--policy",
            "fifo",
            "--units",
            "8",
            "--load=0.5",
            "--no-fair",
            "--status",
            "completed",
        ],
        ["demo:jobs=20", "--policy", "srsf", "--predict", "--seed", "3", "--seeds", "2"],
        ["sample:tiny", "--policy", "fifo", "--units", "0"],
        ["sample:tiny"],
        ["--policy", "fifo"],
    ],
    ids=" ".join,
)
def test_a_quick_simulation_is_that_of_typer(betimes: Call, words: list[str]) -> None:
    def untimed(said: Said) -> tuple[int, object, str]:
        return said.code, {**json.loads(said.out), "timing": None} if said.out else None, said.err

    quick = untimed(betimes("simulate", *words, "--json"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verbs, "quick", lambda _: None)
        assert untimed(betimes("simulate", *words, "--json")) == quick


WORDS = (
    *("--status", "queued", "queued,running", "--user", "ada", "--name", "train", "--label", "a=b"),
    *(
        "--label=c=d",
        "--array",
        "3",
        "--limit",
        "7",
        "--limit=0",
        "--all",
        "--watch",
        "-o",
        "wide",
        "--output=wide",
    ),
    *(
        "--json",
        "--service",
        ".",
        "-h",
        "--",
        "-",
        "41",
        "x",
        "--every",
        "2s",
        "--priority",
        "--retries",
        "-3",
    ),
    *("--hold", "--requeue", "--no-requeue", "--qos", "trial", "--units=1-8", "--env", "A=1", "--cpu", "2.5"),
)


@given(st.sampled_from(["jobs", "submit", "job", "events"]), st.lists(st.sampled_from(WORDS), max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_quick_call_asks_what_the_same_call_by_typer_does(
    betimes: Call, tell: Tell, name: str, words: list[str]
) -> None:
    if "--watch" in words:
        return
    call = [name, *words, *(["--", "true"] if name == "submit" and "--" not in words else [])]
    tell_promise(tell, quote())
    tell(jobs=listed(job()), job=story(job()), events=Page(items=[event()]), health=health())

    def asked() -> tuple[Said, list[tuple[object, ...]]]:
        """What it left behind, and what it asked; the key of a submission is made up each time."""
        tell.asked.clear()
        said = betimes(*call)
        return said, [one[:-1] if one[0] == "submit" else one for one in tell.asked]

    quick = asked()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verbs, "quick", lambda _: None)
        assert asked() == quick


@pytest.mark.parametrize(
    "call",
    [
        ["jobs", "--help"],
        ["jobs", "--limit", "x"],
        ["jobs", "--limit", "0"],
        ["nodes", "--json", "list"],
        ["x"],
    ],
)
def test_help_and_mistakes_are_left_to_typer(call: list[str]) -> None:
    assert verbs.quick(call) is None
