"""What is in the cache of compiled kernels, as far as the service knows: a mark for everything that it has compiled.

The marks lie in the folder of the kernels, so that they go with it. A mark without its kernels does no harm: they are
compiled where they are loaded, which takes longer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from betimes.core.kernel import CACHE_DIR, INTERPRETED
from betimes.service.building import compile_policy, kernels_of

FOLDER = "compiled"


def is_cached(policy: str) -> bool:
    """Whether a policy has been compiled into the cache. Raises PolicyError, ClusterError."""
    mark = _mark_of(policy)
    return mark is not None and mark.is_file()


def compile_into_cache(policy: str) -> None:
    """Compile or load a policy, and mark it as compiled. Raises PolicyError, ClusterError."""
    compile_policy(policy)
    mark = _mark_of(policy)
    if mark is not None and not INTERPRETED and why_not_writable() is None:
        mark.parent.mkdir(exist_ok=True)
        mark.touch()


def why_not_writable() -> str | None:
    """Why nothing can be added to the cache; null: it can."""
    try:
        CACHE_DIR.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=CACHE_DIR):
            return None
    except OSError as error:
        return f"{CACHE_DIR}: {error.strerror or error}"


def _mark_of(policy: str) -> Path | None:
    name = kernels_of(policy)
    return CACHE_DIR / FOLDER / name if name is not None else None
