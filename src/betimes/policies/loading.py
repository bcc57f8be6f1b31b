"""Loading of policies that do not ship with Betimes: users' Python files, and installed packages."""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from betimes import __version__, plugins
from betimes.errors import InputError, PolicyError, did_you_mean
from betimes.kernels import BOUNDSCHECK, INTERPRETED, cache_root, checking_indices
from betimes.policies.hooks import Policy
from betimes.policies.nodes.hooks import NodesPolicy

AnyPolicy = TypeVar("AnyPolicy", bound=Policy | NodesPolicy)

DECORATORS = "@priority or @allocation for a pool, or @ordering, @placement or @eviction for nodes"

_BESIDE: set[str] = set()
"""Names of modules that users' policy files have imported from their own folders."""

_FOLDERS: list[Path | None] = []
"""Folders to which users' policies are restricted, the latest restriction last; empty: no restriction."""


@contextmanager
def only_policies_below(folder: Path | None) -> Generator[None]:
    """Inside, load only policy files below `folder`; None: no policy files at all.

    This holds for the whole process, so that a service runs only code that its operator has put there. Raises
    InputError if there is no such folder.
    """
    if folder is not None and not folder.is_dir():
        raise InputError(
            f"--policy-files {folder}: there is no such folder; name the one with the policy files"
        )
    _FOLDERS.append(None if folder is None else folder.resolve())
    try:
        yield
    finally:
        _FOLDERS.pop()


def load_policy(path: str, name: str, kind: type[AnyPolicy]) -> AnyPolicy:
    """The policy `name` in the Python file `path`, which must be of the `kind` that the engine takes.

    Edits of the file, of Python files beside it and of those that it imports from below take effect. Until the policy
    has completed one simulation, its indices are checked: a mistake is then an error that names the policy, and not a
    crash. Raises PolicyError: no such file, no such name, or any error of the file itself.
    """
    try:
        file = Path(path).expanduser().resolve()
        _check_folder(path, file)
        if not file.is_file():
            raise PolicyError(f"policy file {path}: there is no such file")
    except (OSError, ValueError, RuntimeError) as error:  # too long a name, a NUL in it, an unknown ~user
        raise _unreadable(f"policy file {path[:200]!r}", error) from error
    if not name:
        raise PolicyError(f"policy file {path}: say which policy, as in {path}:shortest_first")
    policy = _loaded(f"policy file {path}", file, name)
    if not isinstance(policy, kind):
        is_for, asked = ("nodes", "pool") if kind is Policy else ("a pool", "nodes")
        raise PolicyError(f"policy {path}:{name} is for {is_for}; it cannot run with --engine {asked}")
    return policy


def installed_policy(name: str) -> Policy | NodesPolicy | None:
    """The policy that an installed package adds by this name, loaded as those of users' files are; None: none does.

    Raises PolicyError where the package's module cannot be imported, or has no such policy.
    """
    entry = plugins.added(plugins.POLICIES).get(name)
    if entry is None:
        return None
    where = f"policy {name} of the package {plugins.package_of(entry)}"
    try:
        spec = importlib.util.find_spec(entry.module)  # which imports the packages around the module
    except Exception as error:  # any error is that of the package
        raise PolicyError(
            f"{where}: {type(error).__name__}: {error}; repair or remove the package"
        ) from error
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise PolicyError(f"{where}: there is no file {entry.module}.py; repair or remove the package")
    return replace(_loaded(where, Path(spec.origin), entry.attr, spec.parent or ""), name=name)


def _loaded(where: str, file: Path, name: str, package: str | None = None) -> Policy | NodesPolicy:
    """The policy `name` of a Python file; raises PolicyError.

    package: of an installed module, the package that it is in, "" for none; null: a user's file, which imports those
    beside it by their plain names.
    """
    try:
        code = _hash_of(file)
        proven = cache_root() / "proven" / f"{code}-{name}"
        checked = BOUNDSCHECK or not proven.exists()
    except (OSError, ValueError) as error:
        raise _unreadable(where, error) from error
    executed_as = f"{package}." if package else ""
    executed_as += f"betimes_user_{code}_{int(checked)}"
    module = _execute(where, file, executed_as, checked, imports_beside=package is None)
    policy = getattr(module, name, None)
    if not isinstance(policy, Policy | NodesPolicy):
        found = [key for key, value in vars(module).items() if isinstance(value, Policy | NodesPolicy)]
        has = f"it has {', '.join(found)}" if found else f"decorate a function with {DECORATORS}"
        raise PolicyError(f"{where}: {name!r} is not a policy; {has}")
    return replace(policy, unproven=proven) if checked else policy


def _unreadable(where: str, error: Exception) -> PolicyError:
    reason = error.strerror if isinstance(error, OSError) else error
    return PolicyError(f"{where}: cannot be read ({reason}); name a Python file")


def mark_proven(policy: Policy | NodesPolicy) -> None:
    """Record that a user's policy has completed a simulation with checked indices; later ones run unchecked."""
    if policy.unproven is None or INTERPRETED:
        return
    with suppress(OSError):  # a cache that cannot be written only costs time
        policy.unproven.parent.mkdir(parents=True, exist_ok=True)
        policy.unproven.touch()


def _check_folder(path: str, file: Path) -> None:
    """Raise PolicyError for a file outside the folder to which policies are restricted."""
    if not _FOLDERS:
        return
    folder = _FOLDERS[-1]
    if folder is None:
        raise PolicyError(
            f"policy file {path[:80]}: this service takes only policies that ship with it; its operator can name a "
            "folder of others (betimes up --policy-files DIR)"
        )
    if not file.is_relative_to(folder):
        raise PolicyError(
            f"policy file {path[:80]}: this service takes policy files from {folder} only; put it there"
        )


def _hash_of(file: Path) -> str:
    """A hash of a policy file: its path, its contents and those of the files that it may import."""
    digest = hashlib.sha256(f"{__version__}\0{file}\0".encode())
    for source in _sources_of(file):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources_of(file: Path) -> list[Path]:
    """The Python files beside `file`, and those below its folder that it imports, directly or not."""
    folder = file.parent
    found, new = set(folder.glob("*.py")), [file]
    while new:
        source = new.pop()
        for name, base in _imports(source, folder):
            for path in (base.joinpath(*name).with_suffix(".py"), base.joinpath(*name, "__init__.py")):
                if path.is_file() and path not in found:
                    found.add(path)
                    new.append(path)
    return sorted(found)


def _imports(source: Path, folder: Path) -> Iterator[tuple[list[str], Path]]:
    """Dotted names that a file may import, each with the folder from which to look for it."""
    try:
        tree = ast.parse(source.read_bytes())
    except (SyntaxError, ValueError):
        return  # executing the file will raise the error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, base = [alias.name for alias in node.names], folder
        elif isinstance(node, ast.ImportFrom):
            base = source.parents[node.level - 1] if node.level else folder
            start = [node.module] if node.module else []
            names = [".".join([*start, *rest]) for rest in ([], *([alias.name] for alias in node.names))]
        else:
            continue
        for name in filter(None, names):
            parts = name.split(".")
            yield from ((parts[:count], base) for count in range(1, len(parts) + 1))


def _execute(where: str, file: Path, module_name: str, checked: bool, *, imports_beside: bool) -> ModuleType:
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, file)
    if spec is None or spec.loader is None:
        raise PolicyError(f"{where}: Python cannot import it; it must be a .py file")
    module = importlib.util.module_from_spec(spec)
    # Numba looks up a cached function's module by name, even while the file is being executed.
    sys.modules[module_name] = module
    writing = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # bytecode does not notice a second edit within a second
    try:
        with checking_indices(checked), _folder_on_path(file.parent) if imports_beside else nullcontext():
            spec.loader.exec_module(module)
    except Exception as error:  # any error is that of the user's file
        del sys.modules[module_name]
        raise PolicyError(f"{where}{_words(error, file, module)}") from error
    finally:
        sys.dont_write_bytecode = writing
    return module


@contextmanager
def _folder_on_path(folder: Path) -> Generator[None]:
    """Inside, modules are imported from `folder` first, and anew: those of another folder may have had their names."""
    for name in _BESIDE:
        sys.modules.pop(name, None)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        _BESIDE.update(name for name in set(sys.modules) - before if _lies_in(folder, sys.modules[name]))


def _words(error: Exception, file: Path, module: ModuleType) -> str:
    """An error of a policy's file with the line in it, and the name that was meant where one is near."""
    lines = [
        line for at, line in traceback.walk_tb(error.__traceback__) if at.f_code.co_filename == str(file)
    ]
    where = f", line {lines[-1]}" if lines else ""
    match error:
        case NameError(name=str(name)):
            near = did_you_mean(name, {*vars(module), *vars(builtins)})
        case AttributeError(name=str(name), obj=obj):
            near = did_you_mean(name, dir(obj))
        case ImportError(name=str(name)) if name in sys.modules and (
            missing := re.search(r"name '(\w+)'", str(error))
        ):
            near = did_you_mean(missing[1], dir(sys.modules[name]))
        case _:
            near = ""
    return f"{where}: {type(error).__name__}: {error}{near}"


def _lies_in(folder: Path, module: ModuleType) -> bool:
    source = getattr(module, "__file__", None)
    return source is not None and Path(source).is_relative_to(folder)
