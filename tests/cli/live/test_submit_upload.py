"""`betimes submit --upload`: what is sent before the job is submitted, what is printed, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.spec.job_spec import JobSpec
from betimes.service.views.models import UploadView
from tests.cli.conftest import Call, Tell
from tests.cli.views import quote
from tests.service.serving import Background

UPLOAD = "5f" * 32
FILE = """
[defaults]
upload = "code"
[[jobs]]
command = "./prepare"
[[jobs]]
command = "./train.sh"
[[jobs]]
command = "./other"
upload = "elsewhere"
"""


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A directory with the programs that jobs name."""
    folder = tmp_path / "code"
    folder.mkdir()
    for name in ("prepare", "train.sh", "other"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def specs(live: Background) -> list[JobSpec]:
    return [job.spec for job in live.it.jobs() if job.spec is not None]


def test_the_directory_is_sent_first_and_the_job_names_it(
    betimes: Call, live: Background, code: Path
) -> None:
    said = betimes("submit", "--upload", "code", "--", "./train.sh")
    assert said.code == 0, said.err
    assert said.out.splitlines()[:2] == [f"Upload {code}: 3 files, 30 bytes, sent", "Job 1, train.sh"]
    again = betimes("submit", "--json", "--upload", "code", "--", "./train.sh").json()
    [upload] = again["uploads"]
    assert (upload["folder"], upload["sent"]) == (str(code), False)
    assert specs(live) == [JobSpec(command=["./train.sh"], upload=upload["sha256"])] * 2
    said = betimes("submit", "--upload", "code", "--", "./train.sh")
    assert said.out.startswith(f"Upload {code}: 3 files, 30 bytes, there already\n")


@pytest.mark.usefixtures("live")
def test_json_stays_one_object_that_tells_of_it(betimes: Call, code: Path) -> None:
    answer = betimes("submit", "--json", "--upload", code, "--", "x").json()
    assert tuple(answer) == ("job_id", "job_ids", "quote", "submitted", "uploads")
    assert [(one["folder"], one["files"], one["sent"]) for one in answer["uploads"]] == [(str(code), 3, True)]
    assert "uploads" not in betimes("submit", "--json", "--", "x").json()


def test_a_file_names_directories_beside_it_and_each_is_sent_once(
    betimes: Call, live: Background, tmp_path: Path, code: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (code / "other").rename(tmp_path / "elsewhere" / "other")
    (tmp_path / "jobs.toml").write_text(FILE)
    sent = betimes("submit", "--json", tmp_path / "jobs.toml").json()["uploads"]
    assert [one["folder"] for one in sent] == [str(code), str(tmp_path / "elsewhere")]
    first, second = (one["sha256"] for one in sent)
    assert [(spec.command, spec.upload, spec.workdir) for spec in specs(live)] == [
        (["./prepare"], first, None),
        (["./train.sh"], first, None),
        (["./other"], second, None),
    ]
    (tmp_path / "one.toml").write_text(f'command = "x"\nupload = "{first}"')
    assert "uploads" not in betimes("submit", "--json", tmp_path / "one.toml").json()
    assert specs(live)[-1] == JobSpec(command=["x"], upload=first)


@pytest.mark.usefixtures("live")
def test_the_option_holds_for_all_jobs_of_a_file(betimes: Call, tmp_path: Path, code: Path) -> None:
    (tmp_path / "jobs.toml").write_text(FILE)
    sent = betimes("submit", "--json", "--upload", code, tmp_path / "jobs.toml").json()["uploads"]
    assert [one["folder"] for one in sent] == [str(code)]


def test_a_quote_sends_nothing_and_is_of_the_directory_as_it_is(
    betimes: Call, tell: Tell, tmp_path: Path
) -> None:
    tell(quote=quote(), upload=UploadView(sha256=UPLOAD, archive_bytes=1))
    assert betimes("quote", "--upload", tmp_path, "--", "./train.sh").code == 0
    assert tell.asked == [("quote", JobSpec(command=["./train.sh"], workdir=str(tmp_path)), "ada")]


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        ('command = "x"', ("--workdir", "/", "--upload", "code"), "upload and workdir exclude each other"),
        (
            'command = "x"\nworkdir = "a"\nupload = "b"',
            (),
            "jobs.toml: upload and workdir exclude each other",
        ),
        ('command = "x"\nupload = 7', (), "line 2, field upload: expected text, found 7"),
        ('command = "x"\nupload = "a"\ncpu = -1', (), "line 3, field cpu"),
    ],
)
def test_nothing_is_sent_for_a_job_that_is_refused(
    betimes: Call, tmp_path: Path, text: str, words: tuple[str, ...], why: str
) -> None:
    (tmp_path / "jobs.toml").write_text(text)
    said = betimes("submit", *words, tmp_path / "jobs.toml")
    assert said.code == 2
    assert why in said.err
