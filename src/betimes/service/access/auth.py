"""Authorisation: the operator's token, made at the first start, and the tokens of runs."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from betimes.errors import ServiceError
from betimes.files import write_private
from betimes.service.access.address import TOKEN_FILE

Role = Literal["operator"]
MOST_TOKEN_CHARACTERS = 512


class TokenStore(Protocol):
    """Where the hashes of tokens are kept; the store is one."""

    def add_token(self, hashed: str, user: str, role: str) -> None:
        """Keep it; durable when it returns."""
        ...

    def token(self, hashed: str) -> tuple[str, str] | None:
        """The user and role of a hash; None: there is no such token."""
        ...


@dataclass(frozen=True)
class Caller:
    """The holder of a token."""

    user: str
    role: str


@dataclass
class Tokens:
    """The tokens that open the API. Only hashes are kept: SHA-256 is enough for 256 random bits."""

    store: TokenStore
    _known: dict[str, Caller] = field(default_factory=dict[str, Caller], repr=False)

    def new(self, user: str, role: Role = "operator") -> str:
        """Make a token and keep its hash; the clear text exists in the answer alone."""
        token = secrets.token_urlsafe(32)
        self.admit(token, user, role)
        return token

    def admit(self, token: str, user: str, role: Role = "operator") -> None:
        """Keep the hash of a token that was made elsewhere."""
        self.store.add_token(hashed(token), user, role)

    def caller(self, token: str) -> Caller | None:
        """The holder of this token; None: it is unknown."""
        if not token or len(token) > MOST_TOKEN_CHARACTERS:
            return None
        wanted = hashed(token)
        for known, caller in self._known.items():
            if hmac.compare_digest(known, wanted):
                return caller
        row = self.store.token(wanted)
        if row is None:
            return None
        self._known[wanted] = Caller(*row)
        return self._known[wanted]


def hashed(token: str) -> str:
    """A token's hash, for the store."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def operator_token(tokens: Tokens, state: Path, user: str) -> str:
    """The operator's token: that of STATE/token, or a new one, written there with mode 0600.

    Raises ServiceError if others can read the file, and OSError.
    """
    path = state / TOKEN_FILE
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        token = tokens.new(user)
        write_private(path, token + "\n")
        return token
    if stat.S_IMODE(mode) & 0o077:
        raise ServiceError(
            f"{path} can be read by others (mode {stat.S_IMODE(mode):04o}): `chmod 600` it if they are trusted, "
            "or delete it to have a new token made"
        )
    token = path.read_text(encoding="utf-8").strip()
    if not token:
        raise ServiceError(f"{path} is empty: delete it to have a new token made")
    if tokens.caller(token) is None:  # the database is new, the file is not
        tokens.admit(token, user)
    return token


@dataclass(frozen=True)
class RunTokens:
    """Tokens that allow a run to report its own progress and nothing else: no table of them is needed."""

    secret: bytes = field(repr=False)

    def issue(self, job: int, attempt: int) -> str:
        """The token of a run, for BETIMES_RUN_TOKEN."""
        return f"run.{job}.{attempt}.{self._seal(job, attempt)}"

    def allows(self, job: int, attempt: int, token: str) -> bool:
        """Whether the token is that of exactly this run."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.issue(job, attempt).encode())

    def _seal(self, job: int, attempt: int) -> str:
        return hmac.new(self.secret, f"betimes run {job} {attempt}".encode(), hashlib.sha256).hexdigest()


def attempt_of(token: str) -> int | None:
    """The attempt that a run's token names, true or not; None: no such token's form."""
    parts = token.split(".")
    named = len(parts) == 4 and parts[0] == "run" and parts[2].isascii() and parts[2].isdigit()
    return int(parts[2]) if named and len(parts[2]) < 10 else None


def bearer(headers: Mapping[str, str]) -> str:
    """The token of an `Authorization: Bearer` header; empty: there is none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
