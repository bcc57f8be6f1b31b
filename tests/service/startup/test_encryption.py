"""Others connect with TLS, this machine without; who does not trust the certificate is told so."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from betimes.client import Client
from betimes.client.plain import PlainClient
from betimes.errors import InputError, NotReachable
from betimes.service.startup.config import ServiceConfig
from betimes.service.startup.server import Encrypted
from tests.service.serving import Serving, served

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")


def certified(folder: Path, name: str = "lab") -> tuple[Path, Path]:
    """A certificate of localhost, signed by itself, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    words = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=lab"
    names = [
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run([*words.split(), *names], check=True, capture_output=True)
    return certificate, key


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return bound.getsockname()[1]


async def while_served(
    state: Path, certificate: Path, key: Path, asks: Callable[[str, str, str], None]
) -> None:
    """Serve, and let `asks` ask in a thread: given the address of this machine, that of others, and the token."""
    it, port = Serving(state), free_port()
    encrypted = Encrypted("localhost", port, certificate, key)
    async with served(it, state, encrypted=encrypted) as url:
        await asyncio.to_thread(asks, url, f"https://localhost:{port}", it.token)


def test_others_connect_with_tls_and_this_machine_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = certified(tmp_path)
    other, _ = certified(tmp_path, "other")

    def asks(url: str, public: str, token: str) -> None:
        with Client(state=tmp_path) as here:
            assert here.nodes()
        assert url.startswith("http://127.0.0.1:")
        monkeypatch.setenv("BETIMES_TOKEN", token)
        for where, ca, why in (
            (public, None, "its certificate is not trusted; BETIMES_CA="),
            (public, other, "its certificate is not trusted; BETIMES_CA="),
            (url.replace("http:", "https:"), certificate, "it does not speak TLS; write http://"),
            (public, certificate, ""),
        ):
            monkeypatch.delenv("BETIMES_CA", raising=False)
            if ca is not None:
                monkeypatch.setenv("BETIMES_CA", str(ca))
            monkeypatch.setenv("BETIMES_URL", where)
            for client in (Client, PlainClient):
                with client() as there:
                    if why:
                        with pytest.raises(NotReachable, match=why):
                            there.nodes()
                    else:
                        assert there.nodes()
                        assert [event.kind for event in there.events()][:1] == ["node-added"]
        monkeypatch.setenv("BETIMES_CA", str(key))
        for client in (Client, PlainClient):
            with pytest.raises(InputError, match="holds no certificates"), client() as there:
                there.nodes()

    asyncio.run(while_served(tmp_path, certificate, key, asks))


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    _, other = certified(tmp_path, "other")
    (tmp_path / "empty").touch()
    for files in (
        (certificate, other),
        (key, certificate),
        (tmp_path / "empty", key),
        (tmp_path / "none", key),
    ):
        with pytest.raises(InputError, match=r"--certificate .* cannot be used together"):
            asyncio.run(while_served(tmp_path, *files, lambda *_: None))
    assert not (tmp_path / "address").exists()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"certificate": certificate}, "belong together"),
        ({"key": key}, "belong together"),
        ({"certificate": certificate, "key": key, "listen": "lab"}, "--listen ADDRESS --port N"),
        ({"certificate": certificate, "key": key, "port": 8321}, "--listen ADDRESS --port N"),
    ]
    for case, why in cases:
        with pytest.raises(InputError, match=why):
            ServiceConfig(**case)
    settings: dict[str, Any] = {"certificate": certificate, "key": key, "port": 8321}
    assert ServiceConfig(**settings, listen="lab.example").public_url == "https://lab.example:8321"
    assert ServiceConfig(**settings, listen="::").public_url == "https://[::]:8321"
