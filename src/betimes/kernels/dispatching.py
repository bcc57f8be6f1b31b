"""Kernels, entries and hooks to Numba."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn

from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from betimes.kernels.cache import KernelCache
from betimes.kernels.linking import EntryCompiler, FragmentCompiler, LeanEntryCompiler, LeanFragmentCompiler
from betimes.kernels.struct_types import signature_of
from betimes.kernels.structs import Hook


class Kernel(CPUDispatcher):
    """A function that other kernels call, translated for the types of their arguments."""

    def __init__(self, function: Callable[..., Any], lean: bool, checks_indices: bool) -> None:
        self.lean, self.checks_indices = lean, checks_indices
        self.ready: dict[Any, CPUDispatcher] = {}
        super().__init__(
            function,
            targetoptions=_options(self, no_cpython_wrapper=True),
            pipeline_class=LeanFragmentCompiler if lean else FragmentCompiler,
        )

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As Numba's, but a literal number in the source has no separate type, which would be compiled for again."""
        return super().get_call_template(tuple(types.unliteral(of) for of in args), kws)

    def __call__(self, *args: Any, **kws: Any) -> NoReturn:
        """Raise TypeError: there is no code that Python could call."""
        raise TypeError(
            f"kernel {self.py_func.__module__}.{self.py_func.__qualname__} is called by other kernels; to Python, "
            "`entry` makes a function of it"
        )


def _options(kernel: Kernel, **more: bool) -> dict[str, Any]:
    return {
        "nopython": True,
        "nogil": True,
        "error_model": "numpy",
        "boundscheck": kernel.checks_indices,
        "no_cfunc_wrapper": True,
        "no_rewrites": kernel.lean,
        "_nrt": not kernel.lean,
        **more,
    }


def _dispatcher(kernel: Kernel, signature: Any, for_python: bool) -> CPUDispatcher:
    """The dispatcher that compiles an entry (for_python), or a hook; nothing is compiled yet."""
    found = kernel.ready.get((signature, for_python))
    if found is None:
        found = CPUDispatcher(
            kernel.py_func,
            targetoptions=_options(kernel, no_cpython_wrapper=not for_python),
            pipeline_class=LeanEntryCompiler if kernel.lean else EntryCompiler,
        )
        vars(found)["_cache"] = KernelCache(kernel, for_python)  # where Numba looks for its own
        kernel.ready[signature, for_python] = found
    return found


def is_cached(kernel: Kernel, parameters: tuple[Any, ...], returns: Any, for_python: bool = True) -> bool:
    """Whether an entry, or a hook, with these annotations has been compiled before, and is in the cache."""
    signature = signature_of(parameters, returns)
    dispatcher = _dispatcher(kernel, signature, for_python)
    return bool(dispatcher.overloads) or KernelCache(kernel, for_python).has(signature, dispatcher.targetctx)


def compiled_entry(kernel: Kernel, parameters: tuple[Any, ...], returns: Any) -> Callable[..., Any]:
    """The function that Python calls, compiled or loaded."""
    signature = signature_of(parameters, returns)
    with _uncollected():
        return _dispatcher(kernel, signature, True).compile(signature)


def compiled_hook(kernel: Kernel, parameters: tuple[Any, ...], returns: Any) -> Hook:
    """The hook, compiled or loaded."""
    return _pointer(kernel, signature_of(parameters, returns), for_python=False)


def pointer_to_entry(kernel: Kernel, parameters: tuple[Any, ...], returns: Any) -> Hook:
    """An entry as a hook, compiled or loaded."""
    return _pointer(kernel, signature_of(parameters, returns), for_python=True)


def _pointer(kernel: Kernel, signature: Any, for_python: bool) -> Hook:
    with _uncollected():
        compiled = _dispatcher(kernel, signature, for_python).get_compile_result(signature)
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return Hook(address, kernel.py_func, compiled)


@contextmanager
def _uncollected() -> Generator[None]:
    """Leave garbage collection out while a kernel is compiled.

    Numba makes millions of small objects that live until the end: to look through them again and again takes 5 to 15 %
    of the time. Its lock is held, so that no other thread that compiles turns collection on meanwhile.
    """
    with global_compiler_lock:
        was_on = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_on:
                gc.enable()
