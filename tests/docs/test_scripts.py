"""A script on a page that the service calls: the filter of jobs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.docs.pages import blocks


def script(page: str, begins: str) -> str:
    """The block of a page that begins so."""
    return next(block["body"] for block in blocks(page) if block["body"].startswith(begins))


@pytest.mark.parametrize(
    ("user", "job", "becomes"),
    [
        ("ann", {"labels": {"project": "p"}, "priority": 3}, {"priority": 3, "time_limit_s": 14400.0}),
        ("student-1", {"labels": {"project": "p"}, "time_limit_s": 9.0, "priority": 3}, {"priority": 0}),
        ("ann", {}, None),
    ],
)
def test_the_filter_of_jobs(user: str, job: dict[str, object], becomes: dict[str, object] | None) -> None:
    filtered = subprocess.run(
        [sys.executable, "-c", script("docs/how-to/a-lab.md", "#!/usr/bin/python3\nimport json")],
        input=json.dumps(job),
        env={"BETIMES_USER": user},
        capture_output=True,
        text=True,
        check=False,
    )
    if becomes is None:
        assert filtered.returncode == 1
        assert filtered.stderr.startswith("write --label project=NAME")
    else:
        assert json.loads(filtered.stdout) == {**job, **becomes}
