"""Text for people, in which nothing that others named or wrote can command a terminal or forge a line."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """A text with control characters as escapes; also for what scripts read line by line."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def one_line(text: str) -> str:
    """A message as one printable line; breaks between its lines become blanks."""
    return printable(" ".join(text.split()))


def report(by: str, text: str) -> None:
    """Print a message as one line on standard error, with its source in front: `betimes: note`, `srun: error`."""
    print(f"{by}: {one_line(text)}", file=sys.stderr, flush=True)
