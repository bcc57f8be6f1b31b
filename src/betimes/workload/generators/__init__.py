"""Generated workloads: arrival processes, distributions of sizes, and the papers' workloads by name.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from betimes.workload.generators.parameters import Generator, Parameter
    from betimes.workload.generators.registry import GENERATORS, generate, is_spec, parse_spec

__all__ = ["GENERATORS", "Generator", "Parameter", "generate", "is_spec", "parse_spec"]

_HOME = {
    "GENERATORS": "betimes.workload.generators.registry",
    "Generator": "betimes.workload.generators.parameters",
    "Parameter": "betimes.workload.generators.parameters",
    "generate": "betimes.workload.generators.registry",
    "is_spec": "betimes.workload.generators.registry",
    "parse_spec": "betimes.workload.generators.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
