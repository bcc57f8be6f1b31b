"""Settings of compilation from the environment."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def _is_set(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


INTERPRETED = _is_set("NUMBA_DISABLE_JIT")
"""Whether the kernels run as plain Python."""

BOUNDSCHECK = _is_set("BETIMES_BOUNDSCHECK")
"""Whether all kernels check their indices."""


def cache_root() -> Path:
    """The folder of all that is kept to save time: compiled code, and values found by searches."""
    chosen = os.environ.get("BETIMES_CACHE_DIR")
    return Path(chosen) if chosen else user_cache_path("betimes")
