"""Checks of a policy's decorator and of its hooks, before anything is compiled."""

from __future__ import annotations

import builtins
import dis
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from betimes.errors import PolicyError, did_you_mean
from betimes.kernels.structs import Struct, layout_of

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
                raise PolicyError(
                    f"policy {policy}: {Path(code.co_filename).name}, line {_line_of(instruction, code)}, "
                    f"{code.co_name} writes {instruction.argval}; a hook writes nothing but its answer"
                )


def mistyped(hook: Any, message: str, structs: Iterable[type[Struct]]) -> tuple[int, str] | None:
    """The line of a user's hook on which stands the word that a compiler's message quotes, and the word meant, if any.

    structs: of what the hook gets. Null where no such word is unknown to all of them.
    """
    if not is_users(hook):
        return None
    quoted = set(re.findall(r"'(\w+)'", message))
    for code in _codes(_plain(hook), set()):
        names = _plain(hook).__globals__
        known = {*names, *vars(builtins), *code.co_varnames}
        for value in names.values():
            if isinstance(value, ModuleType):
                known |= vars(value).keys()
        for field in (field for struct in structs for field in layout_of(struct).fields.values()):
            known |= {field.name, *(field.dtype.names or () if field.dtype is not None else ())}
        for instruction in dis.get_instructions(code):
            word = instruction.argval
            if word in quoted - known and instruction.opname.startswith(
                ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD")
            ):
                return _line_of(instruction, code), did_you_mean(word, known)
    return None


def _line_of(instruction: dis.Instruction, code: CodeType) -> int:
    found = instruction.positions.lineno if instruction.positions is not None else None
    return found or code.co_firstlineno


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
