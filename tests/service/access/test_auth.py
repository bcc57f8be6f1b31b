"""Tokens: made once, kept as hashes, never readable by others, and good for no more than they are meant for."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.errors import ServiceError
from betimes.files import write_private
from betimes.service.access.auth import (
    Caller,
    RunTokens,
    Tokens,
    attempt_of,
    bearer,
    operator_token,
)
from tests.service.serving import MemoryTokens


def test_the_first_start_makes_a_token_and_later_ones_find_it(tmp_path: Path) -> None:
    ledger = MemoryTokens()
    state = tmp_path / "new" / "state"
    token = operator_token(Tokens(ledger), state, "ada")
    assert len(token) >= 43
    assert (state / "token").read_text() == token + "\n"
    assert stat.S_IMODE((state / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) & 0o077 == 0
    assert operator_token(Tokens(ledger), state, "ada") == token
    assert Tokens(ledger).caller(token) == Caller("ada", "operator")
    assert list(ledger.rows) == [hashlib.sha256(token.encode()).hexdigest()]
    assert token not in repr(ledger) + repr(Tokens(ledger))


def test_a_token_outlives_its_database(tmp_path: Path) -> None:
    token = operator_token(Tokens(MemoryTokens()), tmp_path, "ada")
    new = Tokens(MemoryTokens())
    assert operator_token(new, tmp_path, "ada") == token
    assert new.caller(token) == Caller("ada", "operator")


def test_a_lost_file_gets_a_new_token(tmp_path: Path) -> None:
    tokens = Tokens(MemoryTokens())
    first = operator_token(tokens, tmp_path, "ada")
    (tmp_path / "token").unlink()
    second = operator_token(tokens, tmp_path, "ada")
    assert first != second
    assert Tokens(tokens.store).caller(second) == Caller("ada", "operator")
    assert Tokens(tokens.store).caller(first) is None


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_token_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    operator_token(Tokens(MemoryTokens()), tmp_path, "ada")
    (tmp_path / "token").chmod(mode)
    with pytest.raises(ServiceError, match="can be read by others"):
        operator_token(Tokens(MemoryTokens()), tmp_path, "ada")


def test_an_empty_token_file_is_said_to_be_empty(tmp_path: Path) -> None:
    write_private(tmp_path / "token", "\n")
    with pytest.raises(ServiceError, match="is empty"):
        operator_token(Tokens(MemoryTokens()), tmp_path, "ada")


def test_a_caller_holds_on_until_the_token_ends_or_the_role_changes() -> None:
    roles = {"eve": "user"}
    now_at = 0.0
    tokens = Tokens(MemoryTokens(), roles.get, lambda: now_at)
    caller = tokens.caller(tokens.issue("eve", "laptop", 10.0))
    assert caller == Caller("eve", "user")
    assert caller is not None
    assert tokens.still_holds(caller)
    roles["eve"] = "viewer"
    assert not tokens.still_holds(caller)
    roles["eve"], now_at = "user", 10.0
    assert not tokens.still_holds(caller)
    assert tokens.still_holds(Caller("root", "operator"))  # known without a token


def test_nobody_has_other_tokens() -> None:
    tokens = Tokens(MemoryTokens())
    token = tokens.new("ada")
    for other in (
        "",
        token[:-1],
        token + "x",
        token.swapcase(),
        "x" * 100_000,
        "\udcff",
        hashlib.sha256(token.encode()).hexdigest(),
    ):
        assert tokens.caller(other) is None
    assert tokens.caller(token) == tokens.caller(token) == Caller("ada", "operator")


def test_a_private_file_is_private_from_its_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    fsync = os.fsync

    def watching(handle: int) -> None:
        modes.extend(stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir())
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watching)
    mask = os.umask(0)
    try:
        write_private(tmp_path / "secret", "x")
    finally:
        os.umask(mask)
    assert set(modes) == {0o600}


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_private(tmp_path / "secret", "old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_private(tmp_path / "secret", "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("secret", "old")]


@given(st.integers(1, 10**9), st.integers(1, 10**9 - 1), st.binary(min_size=1))
def test_a_runs_token_is_good_for_that_run_alone(job: int, attempt: int, secret: bytes) -> None:
    runs = RunTokens(secret)
    token = runs.issue(job, attempt)
    assert runs.allows(job, attempt, token)
    assert attempt_of(token) == attempt
    assert not runs.allows(job + 1, attempt, token)
    assert not runs.allows(job, attempt + 1, token)
    assert not runs.allows(job, attempt, token[:-1])
    assert not RunTokens(secret + b"x").allows(job, attempt, token)
    assert repr(secret) not in repr(runs)


@pytest.mark.parametrize(
    "token", ["", "run", "run.1.x.y", "run.1.²." + "0" * 64, "run.1." + "9" * 5000 + ".x", "\udcff"]
)
def test_what_is_no_runs_token(token: str) -> None:
    assert attempt_of(token) is None
    assert not RunTokens(b"s").allows(1, 1, token)


def test_bearer_tokens_are_taken_from_the_header() -> None:
    assert bearer({"authorization": "bearer  abc "}) == "abc"
    assert bearer({"authorization": "Basic abc"}) == bearer({}) == ""
