"""Decorators and functions that make a Python function a kernel, an entry or a hook."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_type_hints

from betimes.kernels.settings import BOUNDSCHECK, INTERPRETED
from betimes.kernels.structs import Struct, layout_of

P = ParamSpec("P")
T = TypeVar("T")
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

_checks_indices = BOUNDSCHECK


@contextmanager
def checking_indices(check: bool = True) -> Generator[None]:
    """Kernels and hooks that are made while this is entered check their indices, or do not."""
    global _checks_indices  # noqa: PLW0603
    before, _checks_indices = _checks_indices, check
    try:
        yield
    finally:
        _checks_indices = before


def kernel(function: AnyFunction) -> AnyFunction:
    """A function that other kernels call; a call from Python is an error with its name.

    It is plain loops over numbers and records. It creates no array, so that references to arrays, which the caller
    holds anyway, need not be counted; it raises nothing; and Numba's passes for comprehensions, closures and array
    expressions are left out (`full_kernel`).
    """
    return _kernel(function, lean=True)


def full_kernel(function: AnyFunction) -> AnyFunction:
    """As `kernel`, for a function that may use all that Numba compiles."""
    return _kernel(function, lean=False)


def _kernel(function: AnyFunction, lean: bool) -> AnyFunction:
    if INTERPRETED:
        return function
    from betimes.kernels.dispatching import Kernel

    return cast("AnyFunction", Kernel(function, lean, _checks_indices))


class Entry(Generic[P, T]):
    """A kernel that Python calls. It releases the interpreter lock meanwhile.

    An entry is compiled, or loaded from the cache, when it is first called, or by `load`, for the types of its
    parameters' annotations. A call from Python then takes about a microsecond: arguments must be of these types, and
    are not checked.
    """

    def __init__(self, function: Callable[P, T], annotations: tuple[Any, ...] | None = None) -> None:
        self.function = function if INTERPRETED else cast("Any", function).py_func
        self._kernel, self._annotations = function, annotations
        self._compiled: Callable[P, T] | None = self.function if INTERPRETED else None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call it; compiled code takes no keywords."""
        return (self._compiled or self.load())(*args, **kwargs)

    def load(self) -> Callable[P, T]:
        """The compiled function itself, for calls in a loop."""
        if self._compiled is None:
            from betimes.kernels.dispatching import compiled_entry

            self._compiled = compiled_entry(cast("Any", self._kernel), *self._types())
        return self._compiled

    def pointer(self) -> Any:
        """The same compiled function as the value of a struct's hook, through which other entries call it.

        An entry takes in all kernels that it calls. Large code that several entries call is better compiled once.
        """
        if INTERPRETED:
            return self.function
        from betimes.kernels.dispatching import pointer_to_entry

        return pointer_to_entry(cast("Any", self._kernel), *self._types())

    @property
    def is_loaded(self) -> bool:
        """Whether it can be called at once."""
        return self._compiled is not None

    def is_ready(self) -> bool:
        """Whether the entry can be called without compiling: it is loaded, or in the cache."""
        if self.is_loaded:
            return True
        from betimes.kernels.dispatching import is_cached

        return is_cached(cast("Any", self._kernel), *self._types())

    def _types(self) -> tuple[tuple[Any, ...], Any]:
        hints = get_type_hints(self.function, include_extras=True)
        returns = hints.pop("return")
        return self._annotations or tuple(hints.values()), returns


def entry(function: Callable[P, T], *annotations: Any) -> Entry[P, T]:
    """An entry of a kernel; annotations: of its parameters, where the function's own do not suffice for Numba."""
    return Entry(function, annotations or None)


def hook(function: Callable[..., Any], of: type[Struct], field: str) -> Any:
    """A kernel as the value of a field of a struct, a pointer through which other kernels call it.

    It is compiled, or loaded from the cache, for the parameters that the field's annotation names; interpreted, it is
    the function itself. Raises what Numba raises where it cannot be compiled.
    """
    if INTERPRETED:
        return function
    from betimes.kernels.dispatching import compiled_hook

    declared = layout_of(of).fields[field]
    return compiled_hook(cast("Any", function), declared.parameters, declared.returns)


def is_hook_ready(function: Callable[..., Any], of: type[Struct], field: str) -> bool:
    """Whether `hook` takes a moment only: it needs no compiling, or stands in the cache."""
    if INTERPRETED:
        return True
    from betimes.kernels.dispatching import is_cached

    declared = layout_of(of).fields[field]
    return is_cached(cast("Any", function), declared.parameters, declared.returns, for_python=False)
