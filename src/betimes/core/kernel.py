"""The one decorator that compiles a hot function, and the place where compiled code is kept.

Numba's own cache notices an edit only in the file that defines a function, so an edited callee would silently
run old code. The cache therefore lives in a folder whose name is a hash of everything that can change the
machine code: the sources of every kernel, the versions of Numba, NumPy and Python, and the flags. A user's
policy file adds its folder to that hash (`policies.loading`).

Environment: ``NUMBA_DISABLE_JIT=1`` runs the same sources interpreted; ``BETIMES_BOUNDSCHECK=1`` compiles them
with index checks; ``BETIMES_CACHE_DIR`` moves the cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from platformdirs import user_cache_path

KERNEL_PACKAGES = ("core", "policies", "twin", "foresight", "service/engines")
"""The packages whose sources are hashed: every kernel that ships with Betimes lives in one of them."""

WITHOUT_KERNELS = "foresight/tuning"
"""A part of them that is Python alone: what is edited there must not compile everything anew."""

BOUNDSCHECK = os.environ.get("BETIMES_BOUNDSCHECK", "") not in ("", "0")

_OPTIONS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": BOUNDSCHECK,
}

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def hash_sources(files: list[Path], *facts: str) -> str:
    """A short hash of the contents of `files` and of further `facts`."""
    digest = hashlib.sha256()
    for fact in (platform.python_version(), version("numba"), version("numpy"), *facts):
        digest.update(fact.encode() + b"\0")
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def kernel_sources() -> list[Path]:
    """Every source file that may hold kernels, in a fixed order."""
    package = Path(__file__).resolve().parent.parent
    plain = package / WITHOUT_KERNELS
    found = (file for name in KERNEL_PACKAGES for file in (package / name).rglob("*.py"))
    return sorted(file for file in found if plain not in file.parents)


def cache_root() -> Path:
    """Where compiled code is kept, for all versions."""
    chosen = os.environ.get("BETIMES_CACHE_DIR")
    return Path(chosen) if chosen else user_cache_path("betimes")


def _point_numba_at_the_cache() -> Path:
    folder = cache_root() / hash_sources(kernel_sources(), f"boundscheck={BOUNDSCHECK}")
    # For a Numba that is not imported yet, and for child processes.
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    return folder


CACHE_DIR = _point_numba_at_the_cache()

numba: Any = import_module("numba")  # only now; and Any, for it tells type checkers little that is true
numba.config.CACHE_DIR = str(CACHE_DIR)  # for a Numba that was imported before

INTERPRETED = bool(numba.config.DISABLE_JIT)
"""Whether the kernels run as plain Python."""


def kernel(function: AnyFunction) -> AnyFunction:
    """Compile `function` on first use, without the interpreter lock, into the cache."""
    return numba.njit(**_OPTIONS)(function)


def lean_kernel(function: AnyFunction) -> AnyFunction:
    """As `kernel`, for a function that creates no array.

    Numba counts references to every array that is put into a variable, taken out of a tuple or given to a
    function. The loop does little else, and the counting took most of its time. What creates no array, and
    whose caller holds the arrays anyway, needs none of it.
    """
    return numba.njit(**_OPTIONS, _nrt=False)(function)


def inlined_kernel(function: AnyFunction) -> AnyFunction:
    """As `lean_kernel`, for a small function that is copied into whoever calls it.

    A call hands over the header of every array of the state, which takes longer than what a small function does.
    """
    return numba.njit(**_OPTIONS, _nrt=False, forceinline=True)(function)


def outlined_kernel(function: AnyFunction) -> AnyFunction:
    """As `lean_kernel`, for what seldom happens or takes long: it stays a function of its own.

    Numba copies whatever a small function calls along with it (`forceinline` is inherited), and so, one into the other,
    nearly all of an engine into its event loop, some of it many times. That takes twice as long to compile and leaves
    the loop less of the processor's registers.
    """
    return numba.njit(**_OPTIONS, _nrt=False, forceinline=False)(function)


@contextmanager
def compiling_into(folder: Path, boundscheck: bool) -> Generator[None]:
    """While this is entered, `kernel` keeps its compiled code in `folder`, and checks indices or does not."""
    before = _OPTIONS["boundscheck"]
    numba.config.CACHE_DIR = str(folder)
    _OPTIONS["boundscheck"] = boundscheck
    try:
        yield
    finally:
        numba.config.CACHE_DIR = str(CACHE_DIR)
        _OPTIONS["boundscheck"] = before


def compile_for(function: Any, signature: Any) -> Any:
    """Compile a kernel for `signature` alone, so that hooks are passed to it as function pointers."""
    if not INTERPRETED and not function.signatures:
        function.compile(signature)
        function.disable_compile()
    return function


def pointers_to(hooks: Sequence[Any], kinds: Callable[[], Sequence[Any]]) -> tuple[Any, ...]:
    """Compiled hooks as function pointers of these `function_type`s, found once.

    For a kernel that is called often and does little: Numba looks every hook up again at each call from Python, which
    takes longer than all the rest.
    """
    return tuple(hooks) if INTERPRETED else tuple(map(_pointer_to, hooks, kinds()))


def _pointer_to(hook: Any, kind: Any) -> Any:
    compiled = hook.get_compile_result(kind.signature)
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)

    class Pointer(numba.types.WrapperAddressProtocol):
        _numba_type_ = kind
        code = compiled  # which must live as long as the pointer does

        def __wrapper_address__(self) -> int:
            return address

        def signature(self) -> Any:
            return kind.signature

    return Pointer()


def type_of(value: Any) -> Any:
    """The Numba type of an argument."""
    return numba.typeof(value)


def function_type(signature: Any) -> Any:
    """The type of a hook with `signature`, for use inside another signature."""
    return numba.types.FunctionType(signature)


def is_warm() -> bool:
    """Whether this version's kernels have been compiled on this machine before."""
    return INTERPRETED or (CACHE_DIR.is_dir() and any(CACHE_DIR.rglob("*.nbc")))


def first_words(error: Exception) -> str:
    """What a compilation error says, on one line, without the compiler's account of its own passes."""
    lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines()]
    said = [line for line in lines if line and not line.startswith(("Failed in", "During:", "^", "<source"))]
    return "; ".join(said[:4])
