"""What the build of the site looks for in its pages. CI builds it: `make site`."""

from __future__ import annotations

import pytest

from tools.site import foreign

HOST = "//cdn.example.org/x"


@pytest.mark.parametrize(
    "text",
    [
        f'<script src="https:{HOST}"></script>',
        f"<img alt='' src='{HOST}'>",
        f'<img alt="" src="x.png" srcset="x.png 1x, https:{HOST} 2x">',
        f'<link rel="stylesheet" href="https:{HOST}">',
        f'<link rel="preconnect" href="HTTPS:{HOST}">',
        f'<p style="background: url(https:{HOST})">',
        f"<style>@import '{HOST}';</style>",
    ],
)
def test_what_a_page_fetches_from_another_host_is_found(text: str) -> None:
    assert [address.lower().removeprefix("https:") for address in foreign(text, ".html")] == [HOST]


def test_links_of_a_page_and_what_is_of_the_site_are_none() -> None:
    page = (
        f'<a href="https:{HOST}">x</a><link rel="canonical" href="https:{HOST}"><img src="../_static/x.png">'
    )
    assert list(foreign(page + "<script>// https://x</script>", ".html")) == []
    assert list(foreign('a { background: url("data:image/svg+xml;x") }', ".css")) == []
    assert list(foreign(f"@font-face {{ src: url('https:{HOST}') }}", ".css")) == [f"https:{HOST}"]
