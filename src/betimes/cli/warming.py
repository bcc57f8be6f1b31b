"""Compiling the kernels, which takes a while once for each version and machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from betimes.cli.display import Display
    from betimes.policies import Policy

NOTICED_S = 1.0
"""What takes longer was compiled; what takes less came from the cache."""


def compile_kernels(
    policies: Sequence[Policy],
    predict: bool,
    display: Display,
    told: Callable[[str, float], object] | None = None,
) -> dict[str, float]:
    """Compile or load what these policies' simulations need; told hears each part and the seconds it took.

    Returns the seconds that one simulation under a policy had to wait for its parts, by the policy's name.
    """
    from betimes.foresight.predict import compiled_prediction
    from betimes.twin.loop import compiled_loop

    parts: dict[str, Callable[[], Any]] = {"the event loop": compiled_loop}
    if predict:
        parts["the predictions"] = compiled_prediction
    hooks = {policy.name: f"policy {policy.name}" for policy in policies}
    parts |= {hooks[policy.name]: policy.hooks for policy in policies}
    took: dict[str, float] = {}
    for name, make in parts.items():
        started = time.perf_counter()
        label = f"compiling {name}"
        display.expect(label, None)
        make()
        display.finish(label)
        took[name] = time.perf_counter() - started
        if told is not None:
            told(name, took[name])
    shared = sum(seconds for name, seconds in took.items() if name not in hooks.values())
    return {name: shared + took[part] for name, part in hooks.items()}
