"""The tables of lists that are shown as the service answers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from betimes.cli.render.tables import Column, say, show

if TYPE_CHECKING:
    from betimes.client.plain import PlainClient

R = TypeVar("R")
Shown = Sequence[tuple[Column, Callable[[R], str]]]
"""Columns, each with the text that a row has there."""


def show_list(
    ask: Callable[[PlainClient], Sequence[R]],
    columns: Shown[R],
    none: str,
    state: str | None,
    *,
    as_json: bool,
    wide: bool,
) -> None:
    """Ask the service for a list, and print it as a table or as JSON; none: printed for an empty one."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json

    with connect(state) as service:
        found = ask(service)
    if as_json:
        print_json(found)
    elif found:
        rows = [[text(each) for _, text in columns] for each in found]
        show([column for column, _ in columns], rows, wide=wide)
    else:
        say(none)
