"""Templates, and how values look in them: instants for the browser's zone, a status as icon, word and colour."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from betimes import __version__
from betimes.printing import printable
from betimes.service.spec.spelling import job_number
from betimes.units import amount, gib, length, usd, within

if TYPE_CHECKING:
    from betimes.service.views.ends import HasEnd

_INSTANT = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)Z")
_REPLAYED_S = 1e8  # instants before 1973 are those of a replayed trace, which counts from 0

TAIL = 7  # characters at the end of a name that stay where it has less room

ICONS = {
    "running": "▶",
    "stopping": "■",
    "queued": "◌",
    "blocked": "⊟",
    "held": "Ⅱ",
    "finished": "✓",
    "failed": "✗",
    "cancelled": "⊘",
    "up": "✓",
    "booting": "◌",
    "draining": "◐",
    "drained": "Ⅱ",
    "lost": "✗",
    "gone": "⊘",
}
"""Of the status of a job or node; its colour is that of its class in the stylesheet."""


def when(at: float | None, alone: bool = False) -> Markup:
    """An instant, in UTC, which the script shows in the browser's zone; alone: without its distance from now."""
    if at is None:
        return Markup("&ndash;")
    if 0.0 <= at < _REPLAYED_S:
        days, seconds = divmod(int(at), 86_400)
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return escape(f"{days} d {text}" if days else text)
    try:
        utc = time.gmtime(round(at))  # as in sentences
    except (OverflowError, OSError, ValueError):
        return Markup("&ndash;")
    machine, people = time.strftime("%Y-%m-%dT%H:%M:%SZ", utc), time.strftime("%Y-%m-%d %H:%M UTC", utc)
    kind = Markup(' class="alone"') if alone else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(machine, kind, people)


def sure(ends: HasEnd, from_at: float) -> Markup:
    """The interval of an end that is promised, or expected, since `from_at`, to follow its median; may be empty."""
    if ends.level is None or ends.finish_low_at is None or ends.finish_high_at is None:
        return Markup("")
    # Of instants and numbers alone.
    return Markup(
        within(ends.finish_low_at, ends.finish_high_at, from_at, ends.level, lambda at: when(at, alone=True))
    )


def sentence(text: str) -> Markup:
    """A sentence of the service with its instants made such elements."""
    return Markup(_INSTANT.sub(lambda found: _instant(found[1]), str(escape(printable(text)))))


def _instant(utc: str) -> str:
    return f'<time class="alone" datetime="{utc}Z">{utc[:10]} {utc[11:16]} UTC</time>'


def state(status: str) -> Markup:
    """A status as icon, word and colour."""
    return Markup('<span class="state {}"><span aria-hidden="true">{}</span> {}</span>').format(
        status, ICONS.get(status, "?"), status
    )


def cut(text: str, most: int = 40) -> Markup:
    """A name in at most so many characters: the middle of a longer one is left out, and its title has all of it."""
    text = printable(text)
    if len(text) <= most:
        return escape(text)
    tail = most // 3
    return Markup('<span title="{}">{}…{}</span>').format(text, text[: most - tail - 1], text[-tail:])


def in_room(text: str) -> Markup:
    """A name that loses its middle where its box is narrower; its title has all of it."""
    text = printable(text)
    tail = min(len(text) // 2, TAIL)
    head, end = text[: len(text) - tail], text[len(text) - tail :]
    return Markup('<span class="in-room" title="{}"><span>{}</span><span>{}</span></span>').format(
        text, head, end
    )


def query(given: dict[str, Any], **changed: Any) -> str:
    """A query string with some of its fields changed; null and empty ones are left out."""
    kept = {name: value for name, value in {**given, **changed}.items() if value not in (None, "")}
    return "?" + urlencode(kept)


def _shown(value: object) -> object:
    """Escape a text's control characters, some of which turn letters around; markup is made here, of such texts."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("betimes.page"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "when": when,
        "sure": sure,
        "sentence": sentence,
        "state": state,
        "cut": cut,
        "in_room": in_room,
        "length": length,
        "usd": usd,
        "gib": gib,
    }
    made.filters |= {"amount": amount, "number": job_number}
    made.globals |= {"query": query, "version": __version__}
    return made


_ENVIRONMENT = _environment()


def render(template: str, **values: Any) -> bytes:
    """A page."""
    return _ENVIRONMENT.get_template(f"{template}.html").render(values).encode()
