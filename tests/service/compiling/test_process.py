"""Compiling in a process of its own: what it leaves behind, and what becomes of it when it fails or is not wanted."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import psutil
import pytest

from betimes.core.kernel import INTERPRETED
from betimes.errors import PolicyError
from betimes.service.building import kernels_of
from betimes.service.compiling import cache
from betimes.service.compiling.process import compile_beside

BROKEN = """
from betimes.policies import priority

@priority(summary="It does not compile.")
def broken(view, now, chosen, key):
    key[0] = view.nothing_of_this_name
"""


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another folder for marks than that of this machine."""
    monkeypatch.setattr(cache, "CACHE_DIR", tmp_path / "cache")
    return tmp_path / "cache" / cache.FOLDER


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
def test_what_has_been_compiled_is_known_to_be_cached(marks: Path) -> None:
    assert not cache.is_cached("fifo")
    asyncio.run(compile_beside("fifo"))
    assert cache.is_cached("pool:fifo")
    assert not cache.is_cached("srsf")
    assert [mark.parent for mark in marks.iterdir()] == [marks]


def test_nothing_is_marked_where_nothing_is_compiled(marks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "INTERPRETED", True)
    cache.compile_into_cache("fifo")
    assert not marks.exists()


def test_a_users_policy_is_never_known_to_be_cached(marks: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(BROKEN.replace("view.nothing_of_this_name", "now"), encoding="utf-8")
    cache.compile_into_cache(f"{file}:broken")
    assert not cache.is_cached(f"{file}:broken")
    assert not marks.exists()


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_a_policy_that_does_not_compile_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(BROKEN, encoding="utf-8")
    with pytest.raises(PolicyError, match="does not compile") as error:
        asyncio.run(compile_beside(f"{file}:broken"))
    assert "\n" not in str(error.value)


def test_the_process_is_gone_when_nobody_waits_for_it_any_more(marks: Path) -> None:
    before = children()

    async def give_up() -> None:
        compiling = asyncio.ensure_future(compile_beside("fifo"))
        while children() <= before:
            await asyncio.sleep(0.01)
        compiling.cancel()
        await asyncio.wait((compiling,))
        assert compiling.cancelled()

    asyncio.run(give_up())
    assert children() <= before
    assert not marks.exists()


def test_a_cache_that_cannot_be_written_is_said_once_and_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(cache, "CACHE_DIR", file / "cache")
    with caplog.at_level(logging.INFO):
        asyncio.run(compile_beside("fifo"))
    (said,) = caplog.messages
    assert said.startswith(
        f"the cache of compiled kernels cannot be written ({file / 'cache'}: Not a directory)"
    )
