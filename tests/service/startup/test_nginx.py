"""The site of nginx in `deploy/`, as nginx reads and runs it, in front of a service."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from betimes.client import Client
from tests.service.serving import PATIENCE_S, Background, Serving
from tests.service.startup.test_encryption import certified, free_port

SITE = Path(__file__).parents[3] / "deploy" / "nginx.conf"
# Debian's is in /usr/sbin, which is not on every user's path.
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

pytestmark = [
    pytest.mark.skipif(NGINX is None, reason="no nginx here"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here"),
]


@pytest.fixture
def proxied(tmp_path: Path, no_fits: None) -> Iterator[Client]:
    """A client of a service behind nginx, under a prefix and with TLS."""
    certificate, key = certified(tmp_path)
    port, behind = free_port(), Serving(tmp_path / "service")
    with Background(behind, tmp_path / "state")() as url:
        site = SITE.read_text()
        for text, here in (
            ("listen 443", f"listen 127.0.0.1:{port}"),
            ("server_name lab.example.org", "server_name localhost"),
            ("/etc/ssl/fullchain.pem", str(certificate)),
            ("/etc/ssl/privkey.pem", str(key)),
            ("http://127.0.0.1:8321", url),
        ):
            assert site.count(text) >= 1, text
            site = site.replace(text, here)
        folders = "".join(
            f"{kind}_temp_path {tmp_path / kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        file = tmp_path / "nginx.conf"
        file.write_text(
            f"daemon off;\npid {tmp_path}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n"
            f"{folders}{site}}}\n"
        )
        assert NGINX is not None
        program = [NGINX, "-e", "stderr", "-c", str(file)]
        checked = subprocess.run([*program, "-t"], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        # Started by root, nginx would give its workers to another user, who cannot look into this folder.
        as_root = ["-g", "user root;"] if os.geteuid() == 0 else []
        with subprocess.Popen([*program, *as_root]) as nginx:
            try:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setenv("BETIMES_CA", str(certificate))
                    _wait_for(port)
                    with Client(f"https://localhost:{port}/betimes", behind.token) as client:
                        yield client
            finally:
                nginx.terminate()
    behind.close()


def _wait_for(port: int) -> None:
    """Return once something listens at a port of this machine."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection(("localhost", port)):
                return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"nothing listens at {port}"
            time.sleep(0.02)


def test_requests_and_streams_pass_through(proxied: Client) -> None:
    seen: list[tuple[str, float]] = []

    def follow() -> None:
        for event in proxied.events(follow=True):
            seen.append((event.kind, time.monotonic()))
            if event.kind == "cancelled":
                return

    following = Thread(target=follow)
    following.start()

    def wait_for(kind: str) -> float:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := [at for each, at in seen if each == kind]:
                return found[0]
            time.sleep(0.02)
        raise AssertionError(f"no {kind} among {seen}")

    # Each event comes before the next one is caused: nothing on the way keeps it back.
    wait_for("node-added")
    job = proxied.submit(command=["true"], hold=True).job_id
    wait_for("submitted")
    proxied.cancel(job)
    wait_for("cancelled")
    following.join(PATIENCE_S)
    assert not following.is_alive()
