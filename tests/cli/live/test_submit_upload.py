"""`betimes submit --upload`: what is sent before the job is submitted, what is printed, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes.service.spec.job_spec import JobSpec
from tests.cli.conftest import Call
from tests.cli.stand_in import UPLOAD, Service

FILE = """
[defaults]
upload = "code"
[[jobs]]
command = "./prepare"
[[jobs]]
command = "./train"
[[jobs]]
command = "./other"
upload = "../elsewhere"
"""


def specs(service: Service) -> list[JobSpec]:
    return next(asked[0] for method, asked in service.asked if method == "submit")


def sent(service: Service) -> list[Path]:
    return [asked for method, asked in service.asked if method == "upload"]


def test_the_directory_is_sent_first_and_the_job_names_it(
    betimes: Call, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = betimes("submit", "--upload", "code", "--", "./train.sh")
    assert said.code == 0, said.err
    assert said.out.splitlines()[:2] == [
        f"Upload {tmp_path}/code: 12 files, 3.3 MiB, sent",
        "Job 42, train.sh",
    ]
    assert [method for method, _ in service.asked] == ["upload", "submit"]
    assert sent(service) == [tmp_path / "code"]
    assert specs(service) == [JobSpec(command=["./train.sh"], upload=UPLOAD)]
    again = betimes("submit", "--upload", "code", "--", "./train.sh")
    assert again.out.startswith(f"Upload {tmp_path}/code: 12 files, 3.3 MiB, there already\n")


def test_json_stays_one_object_that_tells_of_it(betimes: Call, service: Service, tmp_path: Path) -> None:
    answer = betimes("submit", "--json", "--upload", tmp_path, "--", "x").json()
    assert tuple(answer) == ("job_id", "job_ids", "quote", "submitted", "uploads")
    assert [(one["folder"], one["sha256"], one["sent"]) for one in answer["uploads"]] == [
        (str(tmp_path), UPLOAD, True)
    ]
    assert "uploads" not in betimes("submit", "--json", "--", "x").json()


def test_a_file_names_directories_beside_it_and_each_is_sent_once(
    betimes: Call, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "jobs.toml").write_text(FILE)
    assert betimes("submit", tmp_path / "jobs.toml").code == 0
    assert sent(service) == [tmp_path / "code", tmp_path.parent / "elsewhere"]
    assert [(spec.command, spec.upload, spec.workdir) for spec in specs(service)] == [
        (["./prepare"], UPLOAD, None),
        (["./train"], UPLOAD, None),
        (["./other"], UPLOAD, None),
    ]


def test_the_option_holds_for_all_jobs_of_a_file(betimes: Call, service: Service, tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(FILE)
    assert betimes("submit", "--upload", tmp_path, tmp_path / "jobs.toml").code == 0
    assert sent(service) == [tmp_path]


def test_a_file_may_name_what_was_sent(betimes: Call, service: Service, tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text(f'command = "x"\nupload = "{UPLOAD}"')
    assert betimes("submit", tmp_path / "jobs.toml").code == 0
    assert sent(service) == []
    assert specs(service) == [JobSpec(command=["x"], upload=UPLOAD)]


def test_a_quote_sends_nothing_and_is_of_the_directory_as_it_is(
    betimes: Call, service: Service, tmp_path: Path
) -> None:
    assert betimes("quote", "--upload", tmp_path, "--", "./train.sh").code == 0
    assert service.asked == [("quote", JobSpec(command=["./train.sh"], workdir=str(tmp_path)))]


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
    betimes: Call, service: Service, tmp_path: Path, text: str, words: tuple[str, ...], why: str
) -> None:
    (tmp_path / "jobs.toml").write_text(text)
    said = betimes("submit", *words, tmp_path / "jobs.toml")
    assert (said.code, service.asked) == (2, [])
    assert why in said.err
