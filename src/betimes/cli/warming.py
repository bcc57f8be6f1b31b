"""Compiling the kernels, which takes a while once for each version and machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from betimes.cli.display import Display
    from betimes.policies import Policy

NOTICED_S = 1.0
"""What takes longer was compiled; what takes less came from the cache."""


def compile_kernels(
    policies: Iterable[Policy],
    predict: bool,
    display: Display,
    told: Callable[[str, float], object] | None = None,
) -> None:
    """Compile or load what these policies' simulations need; told hears each part and the seconds it took."""
    from betimes.foresight.predict import compiled_prediction
    from betimes.twin.loop import compiled_loop

    parts: dict[str, Callable[[], Any]] = {"the event loop": compiled_loop}
    if predict:
        parts["the predictions"] = compiled_prediction
    parts |= {f"policy {policy.name}": policy.hooks for policy in policies}
    for name, make in parts.items():
        started = time.perf_counter()
        label = f"compiling {name}"
        display.expect(label, None)
        make()
        display.finish(label)
        if told is not None:
            told(name, time.perf_counter() - started)
