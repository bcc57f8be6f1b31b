"""Jobs that are submitted together name each other: a pipeline in one file."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.errors import JobFileError, Refused
from betimes.service.runtime.service_backend import ServiceBackend
from betimes.service.scheduling.job_states import Status
from betimes.service.spec.job_file import read_jobs
from betimes.service.spec.job_spec import JobSpec, split_after
from betimes.service.spec.pipelines import check_names, resolved
from tests.service.four_cores import on_four_cores, over, spec

PIPELINE = """
[[jobs]]
name = "prep"
command = "true"

[[jobs]]
name = "train"
command = "true"
after = ["prep"]
array = "1-3"

[[jobs]]
command = "/bin/report --all"
after = ["train:any", "prep", 41]
"""


def named(name: str, *after: str, **asked: object) -> JobSpec:
    return spec(name=name, after=list(after), **asked)


@pytest.mark.parametrize(
    ("text", "job", "on"),
    [
        ("41", 41, "ok"),
        ("41:any", 41, "any"),
        ("prep", "prep", "ok"),
        ("prep:any", "prep", "any"),
        ("a:b:ok", "a:b", "ok"),
        ("a:b", "a:b", "ok"),
    ],
)
def test_what_is_waited_for(text: str, job: int | str, on: str) -> None:
    assert split_after(text) == (job, on)


def test_a_pipeline_runs_in_its_order(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        specs = [
            named("prep"),
            named("train", "prep", array="1-3"),
            named("notes", "prep:any"),
            named("report", "train", "notes:any"),
        ]
        taken = await backend.submit(specs, "ann", key="once")
        assert [one.job_ids for one in taken] == [[1], [2, 3, 4], [5], [6]]
        assert (await backend.job(3)).spec.after == ["1:ok"]
        assert (await backend.job(5)).spec.after == ["1:any"]
        assert (await backend.job(6)).spec.after == ["2:ok", "3:ok", "4:ok", "5:any"]
        again = await backend.submit(specs, "ann", key="once")
        assert [one.job_ids for one in again] == [one.job_ids for one in taken]
        await over(backend)
        story = await backend.job(6)
        assert story.job.status is Status.FINISHED
        assert story.job.started_at == 200.0  # two stages of 100 s before it, on four cores

    on_four_cores(tmp_path, ask)


def test_all_of_one_name_are_meant(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        await backend.submit([named("part"), named("part"), named("all", "part")], "ann")
        assert (await backend.job(3)).spec.after == ["1:ok", "2:ok"]
        whole = named("sweep", array="1-4", as_one=True)
        taken = await backend.submit([whole, named("best", "sweep")], "ann")
        assert (await backend.job(taken[1].job_id)).spec.after == [f"{taken[0].job_id}:ok"]

    on_four_cores(tmp_path, ask)


@pytest.mark.parametrize(
    ("specs", "field"),
    [
        ([named("a", "b"), named("b")], "jobs[0].after"),
        ([named("a", "a")], "after"),
        ([named("a"), named("b", "a", "c")], "jobs[1].after"),
    ],
    ids=["later", "itself", "nobody"],
)
def test_a_name_of_no_job_before_it_is_refused(tmp_path: Path, specs: list[JobSpec], field: str) -> None:
    async def ask(backend: ServiceBackend) -> None:
        with pytest.raises(Refused, match="no job of that name stands before it") as error:
            await backend.submit(specs, "ann")
        assert error.value.field == field
        assert not backend.scheduler.ledger.jobs
        with pytest.raises(Refused, match="no job of that name stands before it"):
            await backend.quote(specs[-1] if specs[-1].after else specs[0], "ann")

    on_four_cores(tmp_path, ask)


def test_nothing_is_taken_where_a_later_one_cannot_be(tmp_path: Path) -> None:
    async def ask(backend: ServiceBackend) -> None:
        with pytest.raises(Refused, match="cores"):
            await backend.submit([named("a"), named("b", "a", cpu=64.0)], "ann")
        assert not backend.scheduler.ledger.jobs

    on_four_cores(tmp_path, ask)


def test_so_many_jobs_are_not_waited_for() -> None:
    specs = [named("many", array="1-1001"), named("last", "many")]
    with pytest.raises(Refused, match=r"'many' are 1,001 jobs, and a job waits for at most 1,000; .*as_one"):
        check_names(specs)
    check_names([named("many", array="1-1001", as_one=True), named("last", "many")])
    assert resolved(specs[1], {"many": [4, 5]}).after == ["4:ok", "5:ok"]


def test_a_file_says_where_the_name_stands(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE)
    assert [job.after for job in read_jobs(file)] == [[], ["prep"], ["train:any", "prep", "41"]]
    file.write_text(PIPELINE.replace('after = ["prep"]', 'after = ["prpe"]'))
    with pytest.raises(JobFileError) as error:
        read_jobs(file)
    assert str(error.value).startswith(f"{file}, line 9, job 2, field after: 'prpe'")
    assert "did you mean 'prep'?" in str(error.value)
    file.write_text('command = "x"\nafter = "prep"\n')
    with pytest.raises(JobFileError, match="line 2, field after: 'prep'"):
        read_jobs(file)
