"""A hash of all that a function's machine code depends on: its byte code and constants, and those of all it names.

Comments, docstrings, line numbers and other code in the same file do not count. So an edit of a kernel recompiles the
entries and hooks that reach it, and nothing else.
"""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from betimes.kernels.structs import Struct, layout_of

LIBRARIES = ("numba", "numpy", "math", "builtins", "typing", "collections", "operator")
"""Packages whose objects are known by name: their versions are part of every key."""


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of all that the machine code of a function, or of a kernel, depends on, but for its arguments' types."""
    reader = _Reader()
    reader.read_function(getattr(function, "py_func", function))
    return reader.digest.hexdigest()


class _Reader:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []  # so that no id stands for two objects

    def note(self, *facts: object) -> None:
        for fact in facts:
            self.digest.update(f"{fact!r}\0".encode())

    def is_new(self, value: Any) -> bool:
        """Whether it has not been read before; else its number is noted."""
        if id(value) in self.seen:
            self.note("again", self.seen[id(value)])
            return False
        self.seen[id(value)] = len(self.seen)
        self.kept.append(value)
        return True

    def read_function(self, function: Any) -> None:
        if not self.is_new(function):
            return
        # Of the toolchain; what it has been made for may differ.
        if function.__module__.startswith(__package__):
            self.note(function.__qualname__)
            self.read_all((cell.cell_contents for cell in function.__closure__ or ()), set())
            return
        code: CodeType = function.__code__
        names = set(_names_in(code))
        self.read_code(code, has_docstring=function.__doc__ is not None)
        self.read_all(function.__defaults__ or (), names)
        self.read_all((cell.cell_contents for cell in function.__closure__ or ()), names)
        for name in sorted(names):
            if name in function.__globals__:
                self.note(name)
                self.read(function.__globals__[name], names)

    def read_code(self, code: CodeType, has_docstring: bool) -> None:
        self.note(
            code.co_code,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            code.co_argcount,
        )
        for number, constant in enumerate(code.co_consts):
            if isinstance(constant, CodeType):
                self.read_code(constant, has_docstring=False)
            elif not (has_docstring and number == 0):
                self.note(type(constant).__name__, constant)

    def read_all(self, values: Iterable[Any], names: set[str]) -> None:
        for value in values:
            self.read(value, names)

    def read(self, value: Any, names: set[str]) -> None:
        """Note a global, a default or what a closure holds; names: those by which the function may look into it."""
        module = str(getattr(value, "__module__", None) or "")
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
            self.note(type(value).__name__, value)
        elif isinstance(value, tuple | list | frozenset):
            self.note(type(value).__name__, len(value))
            self.read_all(sorted(value, key=repr) if isinstance(value, frozenset) else value, names)
        elif isinstance(value, np.ndarray):
            self.note(value.dtype, value.shape, value.tobytes())
        elif hasattr(value, "py_func"):  # a kernel, or a function that Numba compiles by itself
            self.note(getattr(value, "targetoptions", {}))
            self.read_function(value.py_func)
        elif hasattr(value, "_defn"):  # Numba's intrinsics: the function that types and lowers
            self.read_function(value._defn)
        elif isinstance(value, ModuleType):
            self.note("module", value.__name__)
            if value.__name__.partition(".")[0] not in LIBRARIES:
                self.read_members(value, names)
        elif module.partition(".")[0] in LIBRARIES or hasattr(builtins, getattr(value, "__name__", "")):
            self.note(module, getattr(value, "__qualname__", type(value).__qualname__))
        elif hasattr(value, "__wrapped__"):
            self.read(value.__wrapped__, names)
        elif isinstance(value, FunctionType):
            self.read_function(value)
        elif isinstance(value, type):
            self.note("class", module, value.__qualname__)
            if issubclass(value, Struct):
                self.note(layout_of(value).digest)
            elif self.is_new(value):
                self.read_members(value, names)
        else:
            self.note(value)  # by its repr: an address in it costs a compilation, and hides no change

    def read_members(self, of: Any, names: set[str]) -> None:
        for name in sorted(names):
            if name in vars(of):
                self.note(name)
                self.read(vars(of)[name], names)


def _names_in(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
