"""A user's own policy, from a Python file that is no part of Betimes."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from betimes.core.kernel import BOUNDSCHECK, cache_root, compiling_into, hash_sources, kernel_sources
from betimes.errors import PolicyError
from betimes.policies.hooks import Policy

_BESIDE: set[str] = set()
"""Names of modules that users' policy files have imported from their own folders."""


def load_policy(path: str, name: str) -> Policy:
    """The policy `name` in the Python file `path`.

    Its compiled code is kept apart, under a hash of all Python files beside it, so that an edit anywhere there
    is seen. Until it has come through one simulation, its indices are checked: a mistake is then an error that
    names the policy, and not a crash. Raises PolicyError: no such file, no such name, or whatever the file
    itself raises.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise PolicyError(f"policy file {path}: there is no such file")
    if not name:
        raise PolicyError(f"policy file {path}: say which policy, as in {path}:shortest_first")
    code = hash_sources([*kernel_sources(), *sorted(file.parent.glob("*.py"))], str(file))
    proven = cache_root() / f"user-{code}" / f"{name}.proven"
    checked = BOUNDSCHECK or not proven.exists()
    module = _execute(path, file, f"betimes_user_{code}_{int(checked)}", checked, proven.parent)
    policy = getattr(module, name, None)
    if not isinstance(policy, Policy):
        found = [key for key, value in vars(module).items() if isinstance(value, Policy)]
        has = f"it has {', '.join(found)}" if found else "decorate a function with @priority or @allocation"
        raise PolicyError(f"policy file {path}: {name!r} is not a policy; {has}")
    return replace(policy, unproven=proven) if checked else policy


def _execute(path: str, file: Path, module_name: str, checked: bool, cache: Path) -> ModuleType:
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise PolicyError(f"policy file {path}: Python cannot import it; it must be a .py file")
    module = importlib.util.module_from_spec(spec)
    # Numba finds a cached function's module by its name, also while the file is being executed.
    sys.modules[module_name] = module
    # Files beside an earlier one, or beside this one before an edit, may have been imported under the same names.
    for name in _BESIDE:
        sys.modules.pop(name, None)
    before, writing = set(sys.modules), sys.dont_write_bytecode
    sys.path.insert(0, str(file.parent))
    sys.dont_write_bytecode = True  # bytecode does not notice a second edit within a second
    try:
        with compiling_into(cache / ("checked" if checked else "unchecked"), checked):
            spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises is that file's fault
        del sys.modules[module_name]
        raise PolicyError(f"policy file {path}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(file.parent))
        sys.dont_write_bytecode = writing
        _BESIDE.update(name for name in set(sys.modules) - before if _lies_in(file.parent, sys.modules[name]))
    return module


def _lies_in(folder: Path, module: ModuleType) -> bool:
    source = getattr(module, "__file__", None)
    return source is not None and Path(source).parent == folder
