"""Compiled entries and hooks on the disk: a file for each, named by a hash of all that its machine code depends on.

Such a file is complete or not there, and its content is checked by a hash, so that processes may compile at once, be
killed, or read a damaged file. It holds for all machines with the same kind of processor as LLVM sees it, wherever the
folder is moved to: a release can ship one (`betimes service warm --out DIR`). The folder may be read-only. Since loaded
code is run, a folder that belongs to a user other than root is not used.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from betimes.kernels.fingerprint import fingerprint
from betimes.kernels.settings import cache_root

if TYPE_CHECKING:
    from betimes.kernels.dispatching import Kernel

SUFFIX = ".kernel"
KEPT = 8
"""Versions of an entry that are kept, the ones used last."""


class KernelCache:
    """The cache of one dispatcher, which looks for an entry or a hook here before it compiles it."""

    cache_path = None  # of Numba's own statistics

    def __init__(self, kernel: Kernel, for_python: bool) -> None:
        self.kernel, self.for_python = kernel, for_python

    def has(self, signature: Any, context: Any) -> bool:
        """Whether the file is there, whole or not, in a folder that is used."""
        return usable_folder() is not None and self._file(signature, context).is_file()

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled code for this signature; None: it has to be compiled."""
        _import_numba_functions()
        context.refresh()
        folder, file = usable_folder(), self._file(signature, context)
        if folder is None or not file.is_file():
            return None
        try:
            content = file.read_bytes()
            digest, payload = content[:32], content[32:]
            if hashlib.sha256(payload).digest() != digest:
                raise ValueError("its content does not match its checksum")
            return CompileResult._rebuild(context, *pickle.loads(payload))
        except Exception as error:  # a damaged file can raise anything; compiling anew is always right
            _warn(f"{file}: {error}; it is compiled again")
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what has just been compiled."""
        folder = usable_folder()
        if folder is None or not keeps_code():
            return
        payload, file = dumps(compiled._reduce()), self._file(signature, compiled.target_context)
        try:
            with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
                part.write(hashlib.sha256(payload).digest() + payload)
            Path(part.name).replace(file)
            self._forget_old(folder)
        except OSError as error:
            _warn(f"{folder}: {error.strerror}; compiled code is not kept")

    def _file(self, signature: Any, context: Any) -> Path:
        key = (
            toolchain(),
            self.kernel.py_func.__module__,
            fingerprint(self.kernel.py_func),
            (self.kernel.lean, self.kernel.checks_indices, self.for_python),
            str(signature),
            context.codegen().magic_tuple(),
        )
        return (
            kernel_folder() / f"{self._name()}-{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}{SUFFIX}"
        )

    def _name(self) -> str:
        return f"{self.kernel.py_func.__module__.removeprefix('betimes.')}.{self.kernel.py_func.__qualname__}"

    def _forget_old(self, folder: Path) -> None:
        versions = sorted(folder.glob(f"{self._name()}-*{SUFFIX}"), key=lambda file: -file.stat().st_mtime)
        for file in versions[KEPT:]:
            file.unlink(missing_ok=True)


def _import_numba_functions() -> None:
    """Import what `refresh` imports first, but not SciPy's linear algebra, a sixth of the start of a simulation.

    Numba imports it only to know whether compiled code may call `np.cov` and `np.corrcoef`, which no kernel does.
    """
    blas = "scipy.linalg.cython_blas"
    if "numba.np.arraymath" in sys.modules or blas in sys.modules:
        return
    sys.modules[blas] = None  # pyright: ignore[reportArgumentType]  # as if it were not installed
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        del sys.modules[blas]


@cache
def toolchain() -> str:
    """A hash of all that every compiled function depends on: versions, and the sources of this package."""
    digest = hashlib.sha256()
    for fact in (platform.python_version(), *map(version, ("numba", "numpy", "llvmlite"))):
        digest.update(f"{fact}\0".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def kernel_folder() -> Path:
    """The folder of compiled code."""
    return cache_root() / "kernels"


@cache
def usable_folder() -> Path | None:
    """The folder of compiled code, made if need be; None, after a warning, where it cannot be used."""
    folder = kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        owner = folder.stat().st_uid
    except OSError as error:
        _warn(f"{folder}: {error.strerror}; compiled code is not kept")
        return None
    if owner not in (os.getuid(), 0):
        _warn(
            f"{folder} belongs to another user: what is loaded from there would run as you; it is left alone, and "
            "compiled code is not kept. Name another folder with BETIMES_CACHE_DIR"
        )
        return None
    if not os.access(folder, os.W_OK) and not any(folder.glob(f"*{SUFFIX}")):
        _warn(f"{folder} cannot be written; compiled code is not kept")
    return folder


def keeps_code() -> bool:
    """Whether compiled code is kept; if not, a warning has given the reason."""
    folder = usable_folder()
    return folder is not None and os.access(folder, os.W_OK)


def _warn(message: str) -> None:
    print(f"betimes: compiled kernels: {message}", file=sys.stderr, flush=True)
