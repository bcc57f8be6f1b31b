"""What verbs print where the service watches Slurm: questions, lists, and what is not offered."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from betimes.page.site import create_page
from betimes.service.api.context import Context
from betimes.service.runtime.service_backend import ServiceBackend
from tests.cli.conftest import Call
from tests.service.serving import PATIENCE_S
from tests.slurm.test_source import ARRAY, Slurm, ago, shown, started, until, waiting, watching


def _pages(backend: ServiceBackend, context: Context) -> ASGIApp:
    return create_page(backend, context)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The state directory of a service that watches eight nodes of four CPUs: one job runs on them, and two wait."""
    folder = tmp_path_factory.mktemp("watching")
    slurm = Slurm(folder)
    slurm.queue(
        started(2, cpus=32, nodes=8, hosts="n[1-8]", limit="1:00:00", start=ago(0.0), name="first"),
        waiting(3, cpus=32, nodes=8, limit="2:00:00", priority=9, name="second"),
        waiting("9_1", cpus=8, nodes=2, limit="3:00:00", priority=5, name="third"),
    )
    up, stop = threading.Event(), threading.Event()

    async def story() -> None:
        async with watching(folder, slurm, page=_pages) as (_, client):

            async def promised() -> bool:
                found = await shown(client)
                return len(found) == 3 and all(job.promised_finish_at for job in found.values())

            await until(promised)
            up.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(story(),))
    thread.start()
    assert up.wait(PATIENCE_S)
    yield str(folder / "state")
    stop.set()
    thread.join(PATIENCE_S)
    assert slurm.fake.nothing_was_written


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BETIMES_STATE", state)
    for name in ("BETIMES_URL", "BETIMES_TOKEN"):
        monkeypatch.delenv(name, raising=False)


SCRIPT = """#!/bin/bash
#SBATCH -N 4 --ntasks-per-node=2
#SBATCH --cpus-per-task=2 --time=30 -J mine
#SBATCH --open-mode=append -o out
srun ./program
#SBATCH -p short
"""


def test_a_script_is_quoted_as_sbatch_would_read_it(betimes: Call, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    said = betimes("quote", "job.sh")
    assert "#SBATCH after the first command is not read" in said.err
    lines = dict(line.strip().split(maxsplit=1) for line in said.out.splitlines()[1:])
    assert said.out.startswith("mine, if it were submitted now")
    # Of promises by limits in young clusters eight tenths come true in the median; Slurm itself plans 3 h.
    assert "in 2.4 h" in lines["starts"]
    assert "in 2.9 h" in lines["done"]
    planned = betimes("quote", "job.sh", "--json").json()
    assert planned["start_at"] - planned["made_at"] == pytest.approx(3 * 3600.0, abs=60.0)
    assert "30 min on 16 units: its time limit, with which Slurm plans" in said.out
    quick = betimes("quote", "job.sh", "--partition", "short", "--nodes", "2", "--json").json()
    assert quick["start_at"] - quick["made_at"] == pytest.approx(3600.0, abs=60.0)


def test_a_job_is_quoted_by_options_alone(betimes: Call) -> None:
    found = betimes("quote", "--nodes", "8", "--ntasks", "8", "--cpus", "4", "--time", "10m", "--json").json()
    assert found["run_s"] == 600.0
    assert found["start_at"] - found["made_at"] == pytest.approx(6 * 3600.0, abs=60.0)
    with_name = betimes("quote", "--ntasks", "1", "--name", "x", "--time", "1:00:00")
    assert with_name.out.startswith("x, if it were submitted now")
    none = betimes("quote", "--ntasks", "1", "--label", "reservation=mine")
    assert "it waits for a reservation" in none.out
    assert "never" not in none.out


@pytest.mark.parametrize(
    ("words", "error"),
    [(["--nodes", "9"], "partition batch has 8 nodes, and the job asks for 9"),
     (["--nodes", "x"], "--nodes: 'x' is not a whole number"),
     (["--ntasks", "1", "--time", "60"], "is it minutes? write 60m"),
     (["--ntasks", "1", "--units", "3"], "by --partition, --nodes, --ntasks"),
     (["--partition", "long"], "there are: batch, short")],
)  # fmt: skip
def test_what_cannot_be_quoted(betimes: Call, words: list[str], error: str) -> None:
    said = betimes("quote", *words)
    assert said.code == 2
    assert error in said.err


def test_a_script_that_names_its_nodes_is_refused(betimes: Call, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/sh\n#SBATCH -w n3\n")
    said = betimes("quote", "job.sh")
    assert "job.sh, line 2: --nodelist: which nodes a job names is not modelled" in said.err


def test_a_table_of_ends_as_it_is_first(betimes: Call) -> None:
    said = betimes("what-if", "--job", "9_1", "--time", "30m", "--nodes", "1")
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert lines[0] == "Job Name User Starts Done now Done then Difference"
    assert lines[2].startswith("9_1 third[1] ")
    assert "2.5 h earlier" in lines[2]
    assert "For the other 2 jobs nothing changes." in lines
    found = betimes("what-if", "--job", "9_1", "--time", "30m", "--json").json()
    assert [one["job_id"] for one in found["jobs"]] == [2, 3, ARRAY + 1]


def test_a_table_of_alternatives(betimes: Call) -> None:
    words = ("what-if", "--job", "9_1", "--nodes", "1", "--time", "30m", "--time", "1h")
    lines = [line.split("  ")[0].strip() for line in betimes(*words).out.splitlines()]
    assert (lines[0], lines[2:]) == ("Request", ["as it is", "--time 30m --nodes 1", "--time 1h --nodes 1"])
    first, second = betimes(*words, "--json").json()
    ends = [
        next(one for one in each["jobs"] if one["job_id"] == ARRAY + 1)["finish_at"]
        for each in (first, second)
    ]
    assert ends[1] - ends[0] == pytest.approx(1800.0, abs=5.0)


@pytest.mark.parametrize(
    ("words", "error"),
    [(["--job", "3", "--time", "1h", "--time", "2h", "--nodes", "1", "--nodes", "2", "--nodes", "3"],
      "--time is given 2 times, and another option 3 times"),
     (["--job", "3", "--units", "many"], "--units many: give a whole number from 1 on"),
     (["--job", "3"], "say what the job is to ask for, by --time"),
     (["--nodes", "3"], "are of a job; name it with --job"),
     (["--job", "3", "--time", "60"], "is it minutes? write 60m"),
     (["--job", "3", "--partition", "short"], "partition short allows 60 min at most"),
     (["--load", "2"], "the plan of Slurm is played out without jobs that come later; here these can be asked")],
)  # fmt: skip
def test_what_cannot_be_asked(betimes: Call, words: list[str], error: str) -> None:
    said = betimes("what-if", *words)
    assert said.code == 2
    assert error in said.err


def test_elements_of_arrays_are_shown_as_slurm_shows_them(betimes: Call) -> None:
    listed = betimes("jobs", "-o", "wide").out
    assert [line.split()[0] for line in listed.splitlines()[2:]] == ["9_1", "3", "2"]
    assert "on nodes of partition batch" in listed
    assert "=yes" not in listed
    story = betimes("job", "9_1").out
    assert story.startswith("Job 9_1, third[1]: ")
    assert "What would help" not in story
    told = " ".join(story.split())  # however wide the terminal is
    assert "job 9_1, partition batch; its command and output are Slurm's: scontrol show job 9_1" in told
    assert "asks for 8 CPUs" in told
    assert "command slurm" not in told
    said = betimes("what-if", "--cancel", "9_1")
    assert any(line.split()[:2] == ["9_1", "third[1]"] for line in said.out.splitlines())
    assert "second" not in said.out


Page = Callable[[str], str]


@pytest.fixture
def page(betimes: Call) -> Iterator[Page]:
    """The text of a page of the service, signed in."""
    url = betimes("open", "--json").json()["url"]
    with httpx.Client(base_url=url.partition("/enter")[0], follow_redirects=True) as client:
        client.get(url)

        def text(path: str) -> str:
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            return answer.text

        yield text


def test_the_page_offers_nothing_that_is_refused(page: Page) -> None:
    for path in (
        "/",
        f"/job/{ARRAY + 1}",
        "/queue",
        "/queue?state=failed",
        "/machines",
        "/policy",
        "/what-if",
    ):
        text = page(path)
        for word in (
            ">Submit<",
            "Submit one",
            ">Cancel<",
            ">Hold<",
            "Add nodes",
            "What would help",
            'type="checkbox"',
        ):
            assert word not in text, (path, word)
        assert ">What if<" in text
        assert "=yes" not in text.replace("batch=yes</a>", "")
    assert "<small>9_1</small>" in page("/queue?array=9")
    assert "job 9_1</small>" in (shown := page(f"/job/{ARRAY + 1}"))
    assert "job 9_1, partition batch; its command and output are Slurm&#39;s: scontrol show job 9_1" in shown
    assert "<dt>CPUs</dt><dd>8</dd>" in shown
    assert "<dt>Command</dt>" not in shown
    assert "<small>9_1</small>" in page("/what-if?cancel=9_1")


def test_the_expected_end_is_where_its_bar_has_it(betimes: Call, page: Page) -> None:
    row = page("/queue").split('<tr id="row-3">')[1].split("</tr>")[0]
    _, *ends = re.findall(r'datetime="([^"]+)"', row)  # after its submission
    found = betimes("job", "3", "--json").json()["job"]["estimate"]
    expected_at = found["finish_median_at"] or found["finish_at"]
    assert datetime.fromisoformat(ends[0].replace("Z", "+00:00")).timestamp() == pytest.approx(
        expected_at, abs=5.0
    )
