"""Who is let in: tokens, hosts, origins."""

from __future__ import annotations

import httpx
import pytest

from tests.service.api.conftest import Serve
from tests.service.serving import Serving

SPEC = {"command": ["true"]}


def routes(it: Serving) -> list[tuple[str, str]]:
    """Every route that needs a token, with numbers and names filled in."""
    found = []
    for path, methods in it.app.openapi()["paths"].items():
        for method, operation in methods.items():
            if "security" in operation:
                found.append((method.upper(), path.replace("{job_id}", "1").replace("{name}", "here")))
    return found


def test_every_route_but_health_needs_a_token(standing: Serving) -> None:
    it = standing
    asked = routes(it)
    assert len(asked) == len([m for path in it.app.openapi()["paths"].values() for m in path]) - 2
    for method, path in asked:
        for header in (
            "",
            "Bearer",
            "Bearer ",
            "Bearer wrong",
            f"Basic {it.token}",
            it.token,
            "Bearer " + "x" * 9999,
        ):
            response = it.ask(method, path, headers={"Authorization": header})
            assert response.status_code == 401, (method, path, header)
            assert response.json()["error"]["code"] == "not-allowed"
            assert response.headers["www-authenticate"].startswith("Bearer")


def test_a_runs_token_opens_nothing_but_its_progress(standing: Serving) -> None:
    it = standing
    headers = {"Authorization": f"Bearer {it.backend.run_tokens.issue(1, 1)}"}
    for method, path in routes(it):
        if not path.endswith("/progress"):
            assert it.ask(method, path, headers=headers).status_code == 403, (method, path)


def test_a_body_is_not_read_before_the_token(standing: Serving) -> None:
    it = standing

    async def endless():  # type: ignore[no-untyped-def]
        while True:
            yield b" " * 65_536

    response = it.ask("POST", "/api/v1/jobs", content=endless(), headers={"Authorization": "Bearer wrong"})
    assert response.status_code == 401


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "127.8.9.1", "localhost."]
)
def test_loopback_names_are_known(standing: Serving, host: str) -> None:
    assert standing.ask("GET", "/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[::", "10.0.0.5", "x" * 9999],
)
def test_other_hosts_are_turned_away(standing: Serving, host: str) -> None:
    response = standing.ask("GET", "/healthz", headers={"Host": host})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "not-allowed")


def test_two_hosts_are_turned_away(standing: Serving) -> None:
    headers = [("Host", "127.0.0.1"), ("Host", "evil.example")]
    request = httpx.Request("GET", "http://127.0.0.1/healthz", headers=headers)
    assert standing.run(lambda http: http.send(request)).status_code == 403


def test_hosts_that_were_configured_are_known(serve: Serve) -> None:
    it = serve(hosts=("betimes.example", "0.0.0.0"))
    for host, status in [
        ("betimes.example:80", 200),
        ("10.0.0.5:80", 200),
        ("[fe80::1]", 200),
        ("evil.example", 403),
    ]:
        assert it.ask("GET", "/healthz", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1", 200),
        ("http://127.0.0.1:80", 200),
        ("http://127.0.0.1:8000", 403),
        ("http://127.0.0.1:x", 403),
        ("https://127.0.0.1", 403),
        ("http://localhost", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_origins_are_turned_away(standing: Serving, origin: str, status: int) -> None:
    assert standing.ask("GET", "/healthz", headers={"Origin": origin}).status_code == status
