"""The values in a query string, or in a field of a form; and where a form leads back to."""

from __future__ import annotations

import math
from urllib.parse import urlsplit

from starlette.requests import Request

from betimes.errors import InputError
from betimes.service.api.limits import MOST_JOB_NUMBER
from betimes.service.spec.spelling import ELEMENTS


def whole(text: str | None, name: str, least: int = 0) -> int:
    """A number of the query. Raises InputError."""
    if (
        text is None
        or not (text.isascii() and text.isdigit())
        or not least <= int(text[:19]) <= MOST_JOB_NUMBER
    ):
        raise InputError(f"{name}: expected a whole number from {least} on, not {(text or '')[:40]!r}")
    return int(text)


def job_number(text: str, name: str) -> int:
    """The number of a job, or of an element of an array in Slurm as in 4711_3. Raises InputError."""
    array, is_element, index = text.partition("_")
    if not is_element:
        return whole(text, name, 1)
    return whole(array, name, 1) * ELEMENTS + whole(index, name)


def instant(text: str, name: str) -> float:
    """An instant of the query. Raises InputError."""
    try:
        at = float(text)
    except ValueError:
        at = math.nan
    if not abs(at) < 1e11:
        raise InputError(f"{name}: expected seconds since 1970, not {text[:40]!r}")
    return at


def local_path(request: Request) -> str:
    """The path and query of a page, as `back` of a form."""
    query = f"?{request.url.query}" if request.url.query else ""
    return request.scope["path"].lstrip("/") + query or "./"


def safe_target(back: str) -> str:
    """A path below the pages: `back`, unless it leads elsewhere."""
    parts = urlsplit(back)
    leads_away = (
        parts.scheme
        or parts.netloc
        or back.startswith(("/", "\\"))
        or ".." in parts.path
        or ":" in parts.path
    )
    return "" if leads_away or any(ord(one) < 32 for one in back) else back
