"""Checks of a policy's decorator and of its hooks, before anything is compiled."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

from betimes.errors import PolicyError

OURS = "betimes"


def check_declaration(
    function: Any, decorator: str, declared: Mapping[str, Any], known: tuple[str, ...]
) -> None:
    """Refuse unknown arguments of the decorator, and a policy without a summary; raises PolicyError."""
    where = f"{located(function)}, @{decorator}"
    for name in declared:
        if name not in known:
            raise PolicyError(f"{where}: there is no {name!r}; it takes {', '.join(known)}")
    if not isinstance(declared.get("summary"), str):
        raise PolicyError(f'{where}: say in one sentence what it does, as in summary="Short jobs first."')


def is_users(function: Any) -> bool:
    """Whether a hook is a user's, and not part of Betimes."""
    return function is not None and _plain(function).__module__.partition(".")[0] != OURS


def located(function: Any) -> str:
    """A hook's name, with its file and line if it is a user's."""
    plain = _plain(function)
    if not is_users(function):
        return plain.__name__
    return f"{Path(plain.__code__.co_filename).name}, line {plain.__code__.co_firstlineno}, {plain.__name__}"


def check_reads_only(policy: str, hook: Any) -> None:
    """Refuse a user's hook that writes into a job, a node or the cluster; raises PolicyError.

    Hooks get the records themselves, as copying each would take longer than the hook.
    """
    if not is_users(hook):
        return
    for code in _codes(_plain(hook), set()):
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_ATTR":
                line = instruction.positions.lineno if instruction.positions is not None else None
                raise PolicyError(
                    f"policy {policy}: {Path(code.co_filename).name}, line {line or code.co_firstlineno}, "
                    f"{code.co_name} writes {instruction.argval}; a hook writes nothing but its answer"
                )


def _plain(function: Any) -> Any:
    return getattr(function, "py_func", function)


def _codes(function: Any, seen: set[CodeType]) -> Iterator[CodeType]:
    """The code of a function and of the user's kernels that it calls by name."""
    code = function.__code__
    if code in seen:
        return
    seen.add(code)
    yield code
    for name in code.co_names:
        helper = function.__globals__.get(name)
        if hasattr(helper, "py_func") and is_users(helper):
            yield from _codes(helper.py_func, seen)
