"""Authorisation: the operator's token, made at the first start, those of users, and those of runs."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from betimes.errors import ServiceError
from betimes.files import write_private
from betimes.service.access.address import TOKEN_FILE

OPERATOR = "operator"
MOST_TOKEN_CHARACTERS = 512


@dataclass(frozen=True)
class KeptToken:
    """A token as the store keeps it: by its hash. Instants are seconds since 1970."""

    hashed: str
    user: str
    role: str = ""  # empty: that of the user at the time of the request
    name: str | None = None  # null: the operator's, in the state directory
    made_at: float | None = None
    expires_at: float | None = None  # null: never
    used_at: float | None = None  # last, to a minute or so
    revoked_at: float | None = None  # null: it is not


class TokenStore(Protocol):
    """A keeper of the hashes of tokens; the store is one."""

    def add_token(self, token: KeptToken) -> None:
        """Keep it; durable when it returns."""
        ...

    def token(self, hashed: str) -> KeptToken | None:
        """The token of a hash; None: there is no such token."""
        ...

    def revoke_tokens(self, user: str | None, name: str | None, at: float) -> int:
        """Revoke a user's tokens of that name that are not, or the operator's (None, None); returns how many."""
        ...

    def note_uses(self, used_at: Mapping[str, float]) -> None:
        """Note the instants of the last uses of tokens, by their hashes."""
        ...


@dataclass(frozen=True)
class Caller:
    """The user who makes a request; `token`: the hash of the token, which tells apart programs of one user."""

    user: str
    role: str
    token: str = field(default="", repr=False, compare=False)  # empty: known without one
    is_peer: bool = field(default=False, repr=False, compare=False)
    """Known by a Unix socket, with a role by its name."""


RoleOf = Callable[[str], str | None]
"""The present role of a user; null: there is none of that name, or disabled."""


@dataclass
class Tokens:
    """The tokens that open the API. Only hashes are kept: SHA-256 is enough for 256 random bits.

    role_of: asked at every request, so that a change of a user holds at once.
    """

    store: TokenStore
    role_of: RoleOf = lambda _: None
    now: Callable[[], float] = time.time
    _known: dict[str, KeptToken] = field(default_factory=dict[str, KeptToken], repr=False)
    _used_at: dict[str, float] = field(default_factory=dict[str, float], repr=False)  # not stored yet

    def new(self, user: str) -> str:
        """Make an operator's token, which depends on no user, and keep its hash."""
        return self._make(KeptToken("", user, OPERATOR))

    def issue(self, user: str, name: str, expires_s: float | None) -> str:
        """Make a token of a user, good for so long; the clear text exists in the answer alone."""
        made_at = self.now()
        expires_at = None if expires_s is None else made_at + expires_s
        return self._make(KeptToken("", user, name=name, made_at=made_at, expires_at=expires_at))

    def _make(self, token: KeptToken) -> str:
        text = secrets.token_urlsafe(32)
        self.store.add_token(replace(token, hashed=hashed(text)))
        return text

    def admit(self, token: str, user: str) -> None:
        """Keep the hash of an operator's token that was made elsewhere."""
        self.store.add_token(KeptToken(hashed(token), user, OPERATOR))

    async def revoke(self, user: str, name: str) -> bool:
        """Accept the user's tokens of that name no more, from now on; whether there is any."""
        count = await asyncio.to_thread(self.store.revoke_tokens, user, name, self.now())
        # In the thread of the loop, as `caller`: what that reads from here on is revoked.
        self._known = {h: kept for h, kept in self._known.items() if (kept.user, kept.name) != (user, name)}
        return count > 0

    def caller(self, token: str) -> Caller | None:
        """The holder of this token; None: it is unknown, expired or revoked, or its user is disabled."""
        if not token or len(token) > MOST_TOKEN_CHARACTERS:
            return None
        return self.holder(hashed(token))

    def still_holds(self, caller: Caller) -> bool:
        """Whether a caller is still who the token made out, for answers that go on."""
        holder = self.holder(caller.token) if caller.token else caller
        return holder is not None and (holder.user, holder.role) == (caller.user, caller.role)

    def holder(self, key: str) -> Caller | None:
        """The holder of the token of this hash; None: as `caller`."""
        kept = self._known.get(key)
        if kept is None:
            kept = self.store.token(key)
            if kept is None or kept.revoked_at is not None:
                return None
            self._known[key] = kept
        if kept.role:
            return Caller(kept.user, kept.role, key)
        now_at = self.now()
        role = self.role_of(kept.user) if kept.expires_at is None or now_at < kept.expires_at else None
        if role is None:
            return None
        self._used_at[key] = now_at
        return Caller(kept.user, role, key)

    async def note_uses(self) -> None:
        """Store when tokens of users were used last; called now and then."""
        used_at, self._used_at = self._used_at, {}
        if used_at:
            await asyncio.to_thread(self.store.note_uses, used_at)


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
        tokens.store.revoke_tokens(None, None, tokens.now())
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
