"""Compiling in a process of its own: what it leaves behind, and what becomes of it when it fails or is not wanted."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from betimes.errors import PolicyError
from betimes.kernels import INTERPRETED
from betimes.service.compiling import kernels as process
from betimes.service.compiling.kernels import compile_beside
from betimes.service.engines.named_policies import is_compiled, kernels_of

BROKEN = """
from betimes.policies import priority

@priority(summary="It does not compile.")
def broken(view, now, chosen, key):
    key[0] = view.nothing_of_this_name
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    """A policy that nobody has compiled before."""
    file = tmp_path / "own.py"
    file.write_text(BROKEN.replace("view.nothing_of_this_name", "now"), encoding="utf-8")
    return f"{file}:broken"


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def test_policies_share_kernels_where_they_differ_in_numbers_alone() -> None:
    assert kernels_of("wfq:thresholds=20+100,weights=3/5+3/10+1/10") == kernels_of(
        "wfq:thresholds=30+100,weights=3/5+3/10+1/10"
    )
    names = [kernels_of(each) for each in ("fifo", "nodes:fifo", "nodes:fifo:placement=worst", "srsf")]
    assert len(set(names)) == 4
    assert kernels_of("pool:fifo") == kernels_of("fifo")


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_what_has_been_compiled_is_known_to_be_cached(own: str) -> None:
    assert not is_compiled(own)
    asyncio.run(compile_beside(own))
    assert is_compiled(own)
    asked = f"from betimes.service.engines.named_policies import is_compiled; print(is_compiled({own!r}))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_a_policy_that_does_not_compile_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(BROKEN, encoding="utf-8")
    with pytest.raises(PolicyError, match="does not compile") as error:
        asyncio.run(compile_beside(f"{file}:broken"))
    assert "\n" not in str(error.value)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_the_process_is_gone_when_nobody_waits_for_it_any_more(own: str) -> None:
    before = children()

    async def give_up() -> None:
        compiling = asyncio.ensure_future(compile_beside(own))
        while children() <= before:
            await asyncio.sleep(0.01)
        compiling.cancel()
        await asyncio.wait((compiling,))
        assert compiling.cancelled()

    asyncio.run(give_up())
    assert children() <= before
    assert not is_compiled(own)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_a_cache_that_cannot_be_written_is_said_once_and_done_without(
    own: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "_keeps_code", lambda: False)
    with caplog.at_level(logging.INFO):
        asyncio.run(compile_beside(own))
    (said,) = caplog.messages
    assert said.startswith("the cache of compiled kernels cannot be written: the service compiles by itself")
