"""Build the site of the documents: ``python -m tools.site`` (``make site``), in the environment of the site.

Every warning is an error: a link that leads nowhere, a page that stands in no list of the landing page. What readers'
browsers would fetch from another host is one, too: fonts, scripts and styles are of the site itself.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "build" / "site"
KEPT = ROOT / "build" / "doctrees"
"""What Sphinx has read, which is no part of the site."""
LANDING = '<!doctype html>\n<meta http-equiv="refresh" content="0; url=docs/index.html">\n'
FOREIGN = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.I)
IN_STYLES = re.compile(r"(?:url\(|@import)\s*[\"']?\s*(?P<address>[^\"')\s;]+)")


def main() -> int:
    """Build the site and look through it; 0, or 1 once the reasons are printed."""
    shutil.rmtree(BUILT, ignore_errors=True)
    sphinx = [sys.executable, "-m", "sphinx", "--conf-dir", "docs", "--doctree-dir", str(KEPT), "--fresh-env"]
    checks = ["--fail-on-warning", "--keep-going", "--quiet"]
    answer = subprocess.run([*sphinx, *checks, ".", str(BUILT)], cwd=ROOT, check=False)
    if answer.returncode:
        return 1
    (BUILT / "index.html").write_text(LANDING)
    found = [
        f"{page.relative_to(BUILT)} fetches {address}"
        for page in sorted(BUILT.rglob("*"))
        if page.suffix in {".html", ".css"}
        for address in foreign(page.read_text(encoding="utf-8"), page.suffix)
    ]
    for line in found:
        print(f"{line}: a reader's browser would ask another host", file=sys.stderr)
    print(f"The site is in {BUILT.relative_to(ROOT)}: open index.html there.")
    return 1 if found else 0


def foreign(text: str, kind: str) -> Iterator[str]:
    """Yield the addresses on other hosts that a browser fetches by itself for a page (`.html`) or a style (`.css`)."""
    if kind == ".html":
        page = _Page()
        page.feed(text)
        fetched = page.fetched
    else:
        fetched = [match["address"] for match in IN_STYLES.finditer(text)]
    yield from filter(FOREIGN.match, fetched)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what this element fetches."""
        given = {name: value or "" for name, value in attrs}
        self.fetched += [given[name] for name in ("src", "poster", "data") if name in given]
        self.fetched += [each.split()[0] for each in given.get("srcset", "").split(",") if each.strip()]
        # Links that only name another page are followed when a reader asks for it.
        if tag == "link" and given.get("rel") not in {"canonical", "next", "prev", "search", "index"}:
            self.fetched.append(given.get("href", ""))
        self._in_style = tag == "style"
        self.handle_style(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        """Collect what a style on the page fetches."""
        if self._in_style:
            self.handle_style(data)

    def handle_endtag(self, tag: str) -> None:
        """End a style."""
        self._in_style = False

    def handle_style(self, text: str) -> None:
        """Collect the addresses of a style."""
        self.fetched += [match["address"] for match in IN_STYLES.finditer(text)]


if __name__ == "__main__":
    sys.exit(main())
