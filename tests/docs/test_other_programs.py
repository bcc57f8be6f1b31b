"""The page about other programs: its scripts, and a client that is generated from the OpenAPI document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import BLOCK, text_of
from tests.service.serving import Background, Serving

PAGE = "docs/how-to/other-programs.md"
GENERATOR = "openapi-python-client==0.29.1"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Background]:
    it = Serving(tmp_path / "service")
    served = Background(it, tmp_path / "state")
    with served():
        yield served
    it.close()


def saved(name: str, folder: Path) -> Path:
    """A file as the page has it."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(next(block["body"] for block in BLOCK.finditer(text_of(PAGE)) if block["file"] == name))
    file.chmod(0o755)
    return file


def test_the_scripts_for_snakemake(live: Background, tmp_path: Path) -> None:
    (tmp_path / "betimes").write_text(f'#!/bin/sh\nexec {sys.executable} -m betimes "$@"\n')
    (tmp_path / "betimes").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "BETIMES_STATE": str(live.state)}

    def said(*words: str | Path) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=True, env=env, cwd=tmp_path).stdout

    status, cancel = (saved(f"betimes-profile/{name}", tmp_path) for name in ("status", "cancel"))
    (tmp_path / "jobscript").write_text("#!/bin/sh\ntrue\n")
    config = saved("betimes-profile/config.yaml", tmp_path).read_text()
    submit = next(line for line in config.splitlines() if "submit-cmd" in line).partition(": ")[2]
    submit = submit.format(rule="map", threads=2, resources=type("", (), {"mem_mb": 500})) + ' "jobscript"'
    assert said("sh", "-c", f"{submit}; {submit}") == "1\n2\n"
    spec = live.it.jobs()[0].spec
    assert spec is not None
    assert (spec.name, spec.cpu, spec.memory_gib) == ("map", 2.0, 500 / 1024)
    assert said(status, "1") == "running\n"
    live.it.end_run(1)
    assert said(status, "1") == "success\n"
    said(cancel, "1", "2")
    live.it.pass_time(30.0)
    assert said(status, "2") == "failed\n"


@pytest.mark.slow
def test_a_client_that_is_generated(live: Background, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", packages, GENERATOR]
    installed = subprocess.run(install, capture_output=True, check=False)
    if installed.returncode:
        pytest.skip(f"{GENERATOR} cannot be installed: {installed.stderr.decode()[-200:]}")
    url = json.loads((live.state / "address").read_text())["url"]
    token = (live.state / "token").read_text().strip()
    env = {
        **os.environ,
        "BETIMES_URL": url,
        "BETIMES_TOKEN": token,
        "PATH": f"{packages}/bin:{os.environ['PATH']}",
        "PYTHONPATH": f"{packages}:{tmp_path}",
    }
    fetch, generate = (
        line.removeprefix("$ ")
        for line in text_of(PAGE).splitlines()
        if line.startswith(("$ curl ", "$ openapi-python-client "))
    )
    for command in (fetch, generate):
        subprocess.run(["sh", "-c", command], check=True, env=env, cwd=tmp_path, capture_output=True)
    call = [sys.executable, saved("submit.py", tmp_path)]
    child = subprocess.Popen(call, stdout=subprocess.PIPE, env=env, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "job 1\n"
    live.it.end_run(1)
    assert child.communicate()[0] == "finished\n"
