"""Generated workloads: arrival processes, distributions of sizes, and workloads by name.

The names below are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from betimes.lazy import lazy_names

if TYPE_CHECKING:
    from betimes.workload.generators.parameters import Generator, Parameter
    from betimes.workload.generators.registry import (
        GENERATORS,
        generate,
        generate_in_chunks,
        is_spec,
        named,
        parse_spec,
    )

__all__ = [
    "GENERATORS",
    "Generator",
    "Parameter",
    "generate",
    "generate_in_chunks",
    "is_spec",
    "named",
    "parse_spec",
]

_HOME = {
    "GENERATORS": "betimes.workload.generators.registry",
    "Generator": "betimes.workload.generators.parameters",
    "Parameter": "betimes.workload.generators.parameters",
    "generate": "betimes.workload.generators.registry",
    "generate_in_chunks": "betimes.workload.generators.registry",
    "is_spec": "betimes.workload.generators.registry",
    "named": "betimes.workload.generators.registry",
    "parse_spec": "betimes.workload.generators.registry",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
