"""Settings of the site: Sphinx with MyST and the theme Furo, from the pages as they are in the repository.

Called by `make site` with the repository as the folder of sources, so that links to the changelog and to examples
beside `docs/` hold. The contents at the side are the lists of `docs/index.md`: a page that stands in none of them is an
error.
"""

from __future__ import annotations

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

VERSION = re.compile(r'^__version__ = "(.+)"$', re.M)
KIND = re.compile(r"^\*\*(?P<kind>[\w ]+)\*\*.*\n\n(?P<pages>(?:(?:- |  ).*\n)+)", re.M)
PAGE = re.compile(r"\]\(([\w./-]+)\.md\)")

project = "Betimes"
author = "the Betimes authors"
version = release = VERSION.findall(
    Path(__file__).parents[1].joinpath("src/betimes/__init__.py").read_text()
)[0]

extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md"]
exclude_patterns = [".*", "build", "dist", "out", "papers", "src", "tests"]
myst_heading_anchors = 4
nitpicky = True
highlight_language = "text"

html_theme = "furo"
html_title = "Betimes"
html_copy_source = False
html_show_copyright = html_show_sphinx = False


def setup(app: Sphinx) -> None:
    """Have the contents added to the landing page, and blocks without colours shown as text."""
    app.connect("source-read", _add_contents)
    for language in ("csv", "mermaid"):
        app.add_lexer(language, TextLexer)


def _add_contents(_: Sphinx, page: str, source: list[str]) -> None:
    if page == root_doc:
        source[0] += "".join(
            "\n```{toctree}\n:hidden:\n"
            f":caption: {kind['kind']}\n\n"
            + "".join(f"{each}\n" for each in PAGE.findall(kind["pages"]))
            + "```\n"
            for kind in KIND.finditer(source[0])
        )
