"""Every block of every page: it is seen, its commands can be typed, its configuration is read by what reads it.

Whether its commands and its Python do what the page says is what `test_pages.py` and `test_service_pages.py` look at.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt
from pydantic import TypeAdapter

from betimes.cli.app import command
from betimes.cli.verbs import with_verb
from betimes.cluster import read_cluster
from betimes.service.machines.cloud_file import read_offers
from betimes.service.spec.job_file import read_jobs
from betimes.service.startup.config import read_settings
from betimes.service.views.models import JobView
from tests.docs.pages import APART, BLOCK, blocks, commands, pages, text_of

CONFIGURATION = ("toml", "yaml", "json")
KINDS = (*CONFIGURATION, "bash", "console", "csv", "mermaid", "py", "python", "sh", "text")
GENERATED = {page for page, why in APART.items() if why.startswith("generated")}


def of_kinds(*kinds: str) -> list[Any]:
    """The blocks of some kinds, each named by its page and line."""
    return [
        pytest.param(block["body"], id=f"{page}:{line_of(page, block)}")
        for page in pages()
        if page not in GENERATED
        for block in blocks(page)
        if block["kind"] in kinds
    ]


def line_of(page: str, block: re.Match[str]) -> int:
    """The line on which a block begins."""
    return text_of(page).count("\n", 0, block.start("kind")) + 1


@pytest.mark.parametrize("page", [page for page in pages() if page not in GENERATED])
def test_every_block_is_seen(page: str) -> None:
    tokens = MarkdownIt().parse(text_of(page))
    assert [token.map for token in tokens if token.type == "code_block"] == [], (
        "a block has a fence, and a kind"
    )
    seen = [block["kind"] for block in blocks(page)]
    assert [token.info for token in tokens if token.type == "fence"] == seen
    assert [kind for kind in seen if kind not in KINDS] == [], "nothing runs or reads blocks of this kind"


def test_pages_that_are_apart_exist() -> None:
    assert set(APART) <= set(pages())
    reasons = [block["why"] for page in pages() for block in blocks(page) if block["why"]]
    for why in (*APART.values(), *reasons):
        for test in re.findall(r"tests/\S+|\S+\.py", why):
            here = Path(__file__).parent / test
            assert here.is_file() or (Path(__file__).parents[2] / test).is_file(), f"{test}: name a test"


def test_a_block_that_does_not_run_says_why() -> None:
    text = "Save this as `a.sh`.\n\n<!-- not run: no machine -->\n\n```sh\ntrue\n```\n"
    (block,) = BLOCK.finditer(text)
    assert (block["file"], block["why"], block["kind"], block["body"]) == (
        "a.sh",
        "no machine",
        "sh",
        "true\n",
    )
    for page in pages():
        reasons = re.findall("^<!-- not run:", text_of(page), re.M)
        assert len(reasons) == len([block for block in blocks(page) if block["why"]]), (
            f"{page}: above a block, alone"
        )


@pytest.mark.parametrize("page", [page for page in pages() if page not in APART])
def test_text_is_what_the_python_above_prints(page: str) -> None:
    kinds = [(block["kind"], block["why"]) for block in blocks(page)]
    for above, (kind, why) in zip([("", None), *kinds], kinds, strict=False):
        assert kind != "text" or why or above == ("python", None), "nothing compares this text; say why"


@pytest.mark.parametrize("body", of_kinds("console", "sh", "bash"))
def test_its_commands_can_be_typed(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    is_console = body.lstrip().startswith("$ ")
    if is_console:  # a call that the page shows refused is run with the page
        lines = [line for line, shown in commands(body) if not shown.startswith("betimes: ")]
    else:
        lines = body.replace("\\\n", "").splitlines()
    subprocess.run(["bash", "-n"], input="\n".join(lines), text=True, check=True)
    for line in lines:
        for words in calls(line):
            can_be_typed(words)


def calls(line: str) -> list[list[str]]:
    """The calls of Betimes in a line of the shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    found: list[list[str]] = []
    inside = False
    for word in lexer:
        if word == "betimes":
            found.append([])
            inside = True
        elif re.fullmatch(r"[|&;<>()]+", word):
            inside = False
        elif inside:
            found[-1].append(word)
    return [
        words for words in found if words and not words[0].startswith("-")
    ]  # or it is a name: `-u betimes`


def can_be_typed(words: list[str]) -> None:
    """Raises what the command line raises where it does not understand the words of a call."""
    for word in words:  # files of the reader
        if re.fullmatch(r"[\w./~-]+\.(sh|sbatch|toml|yaml)", word):
            file = Path(word)
            file = Path(file.name) if file.is_absolute() else file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("#!/bin/sh\n")
    words = with_verb(words)
    verb: Any = command()
    while hasattr(verb, "commands") and words and words[0] in verb.commands:
        verb, words = verb.commands[words[0]], words[1:]
    verb.make_context("betimes", words)


@pytest.mark.parametrize("body", of_kinds("python", "py"))
def test_its_python_compiles(body: str) -> None:
    compile(body, "block", "exec")


@pytest.mark.parametrize("body", of_kinds("toml"))
def test_its_toml_is_read(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sendmail").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    file = tmp_path / "block.toml"
    file.write_text(body)
    top = tomllib.loads(body)
    if {"jobs", "command"} & set(top):
        assert read_jobs(file)
    elif "nodes" in top or "maintenance" in top:
        read_cluster(file)
    elif "offers" in top:
        assert read_offers(file).offers
    elif "project" in top:  # a package, which tests/test_plugins.py installs
        assert top["project"]["name"]
    else:
        assert read_settings({"state": str(tmp_path)}, file, {})


@pytest.mark.parametrize("body", of_kinds("yaml"))
def test_its_yaml_is_read(body: str, tmp_path: Path) -> None:
    file = tmp_path / "block.yaml"
    file.write_text(body)
    found = yaml.safe_load(body)
    if isinstance(found.get("jobs"), list):
        assert read_jobs(file)
    elif "scrape_configs" in found and shutil.which("promtool"):
        subprocess.run(["promtool", "check", "config", "--syntax-only", file], check=True)
    else:  # of Snakemake or Prometheus
        assert found


@pytest.mark.parametrize("body", of_kinds("json"))
def test_its_json_is_what_the_service_sends(body: str) -> None:
    found = json.loads(body)
    assert set(found) == {"event", "event_id", "at", "text", "job", "data"}, "a notification"
    for name, value in found["job"].items():
        kind: Any = JobView.model_fields[name].annotation
        TypeAdapter(kind).validate_python(value)
