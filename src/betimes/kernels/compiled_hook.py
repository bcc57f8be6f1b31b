"""A compiled function that other kernels call through a pointer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hook:
    """A compiled function as a struct's field takes it; `address` is where its code is, for as long as this lives."""

    def __init__(self, address: int, function: Callable[..., Any], keep: object) -> None:
        self.address, self.function, self._keep = address, function, keep
