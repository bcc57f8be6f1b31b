"""A user's own policy, from a Python file that is no part of Betimes."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

from betimes.core.kernel import compiling, hash_sources, kernel_sources
from betimes.errors import PolicyError
from betimes.policies.hooks import Policy


def load_policy(path: str, name: str) -> Policy:
    """The policy `name` in the Python file `path`.

    Its compiled code is kept apart, under a hash of all Python files beside it, so that an edit anywhere there
    is seen. Raises PolicyError: no such file, no such name, or whatever the file itself raises.
    """
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise PolicyError(f"policy file {path}: there is no such file")
    if not name:
        raise PolicyError(f"policy file {path}: say which policy, as in {path}:shortest_first")
    beside = sorted(file.parent.glob("*.py"))
    code = hash_sources([*kernel_sources(), *beside])
    module_name = f"betimes_user_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}_{code}"
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, file)
        if spec is None or spec.loader is None:
            raise PolicyError(f"policy file {path}: Python cannot import it; it must be a .py file")
        module = importlib.util.module_from_spec(spec)
        # Numba finds a cached function's module by its name, also while the file is being executed.
        sys.modules[module_name] = module
        try:
            with compiling(f"user-{code}"):
                spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise PolicyError(f"policy file {path}: {type(error).__name__}: {error}") from error
    policy = getattr(module, name, None)
    if not isinstance(policy, Policy):
        found = [key for key, value in vars(module).items() if isinstance(value, Policy)]
        has = f"it has {', '.join(found)}" if found else "decorate a function with @priority or @allocation"
        raise PolicyError(f"policy file {path}: {name!r} is not a policy; {has}")
    return policy
