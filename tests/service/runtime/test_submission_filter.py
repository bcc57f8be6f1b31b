"""A command of the operator's changes and refuses jobs as they are submitted, whoever submits them and however."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from betimes.service.runtime.submission_filter import SubmissionFilter
from tests.service.serving import Serving

Serve = Callable[..., Serving]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    it = Serving(tmp_path / "s").start()

    def filtered(script: str, limit_s: float = 30.0) -> Serving:
        program = tmp_path / "filter"
        program.write_text(
            f"#!/usr/bin/env python3\nimport json, os, sys, time\njob = json.load(sys.stdin)\n{script}\n"
        )
        program.chmod(0o755)
        it.backend.submissions.filter = SubmissionFilter(
            str(program), it.assembly.controller.launches, limit_s
        )
        return it

    yield filtered
    it.close()


def submit(it: Serving, **fields: object) -> httpx.Response:
    return it.ask("POST", "/api/v1/jobs", json={"command": ["true"], **fields})


def test_it_changes_jobs_knows_their_user_and_is_asked_once_for_an_array(
    serve: Serve, tmp_path: Path
) -> None:
    it = serve(
        f"open({str(tmp_path / 'asked')!r}, 'a').write(json.dumps(job) + '\\n')\n"
        "job.setdefault('time_limit_s', 3600.0)\n"
        "job.setdefault('labels', {})['for'] = os.environ['BETIMES_USER']\n"
        "print(json.dumps(job))"
    )
    assert submit(it, array="1-3").status_code == 201
    assert submit(it, time_limit_s=60.0).status_code == 201
    specs = [view.spec for view in it.jobs()]
    assert [(spec.time_limit_s, spec.labels) for spec in specs if spec is not None] == [
        *[(3600.0, {"for": "ada"})] * 3,
        (60.0, {"for": "ada"}),
    ]
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert asked == [
        {"command": ["true"], "array": "1-3"},
        {"command": ["true"], "time_limit_s": 60.0},
    ]
    quoted = it.ask("POST", "/api/v1/quote", json={"command": ["true"], "estimate_s": 1e5}).json()
    assert quoted["finish_at"] == pytest.approx(3600.0, abs=60.0), "by the limit that it would get"


def test_it_refuses_with_its_last_line_and_nothing_of_a_batch_is_taken(serve: Serve) -> None:
    it = serve(
        "if 'x' in job['command']:\n"
        "    print('looking', file=sys.stderr)\n"
        "    sys.exit('ask for a project first: --label project=NAME')\n"
    )
    refused = submit(it, command=["x"])
    assert refused.status_code == 422
    assert refused.json()["error"]["message"] == "ask for a project first: --label project=NAME"
    batch = {"jobs": [{"command": ["true"]}, {"command": ["x"]}]}
    assert it.ask("POST", "/api/v1/jobs", json=batch).status_code == 422
    assert it.jobs() == []
    assert submit(it).status_code == 201, "no answer leaves a job as it is"
    serve("sys.exit(7)")
    assert "submission filter refuses it (exit status 7)" in submit(it).json()["error"]["message"]


def test_one_that_hangs_or_answers_nonsense_refuses_and_says_so(serve: Serve) -> None:
    it = serve("os.system('sleep 60 &')\ntime.sleep(60)", limit_s=1.0)
    began = time.monotonic()
    refused = submit(it)
    assert refused.status_code == 422
    assert "the service's submission filter has not answered within 1 s" in refused.json()["error"]["message"]
    assert time.monotonic() - began < 30.0
    for script, said in (
        ("print('{}')", "answers with no job (command: Field required)"),
        ("job['color'] = 'red'\nprint(json.dumps(job))", "answers with no job (color: Extra inputs"),
        ("print('hello')", "answers with no job (its answer: Invalid JSON"),
    ):
        serve(script)
        assert said in submit(it).json()["error"]["message"]
    assert it.jobs() == []


def test_the_same_key_gives_the_same_answer_though_the_filter_has_changed(serve: Serve) -> None:
    it = serve("job['name'] = 'a'\nprint(json.dumps(job))")
    again = {"Idempotency-Key": "k"}
    first = it.ask("POST", "/api/v1/jobs", json={"command": ["true"]}, headers=again)
    serve("sys.exit('closed')")
    second = it.ask("POST", "/api/v1/jobs", json={"command": ["true"]}, headers=again)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["job_id"] == second.json()["job_id"]
