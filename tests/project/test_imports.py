"""Modules do not import each other in a circle, not even late, within functions, or for the names of types only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (ROOT / "src", ROOT / "papers" / "src")

Graph = dict[str, set[str]]

KNOWN = {
    "betimes.kernels.cache": {"betimes.kernels.dispatching"},
    "betimes.service.runtime.controller": {"betimes.service.runtime.metrics"},
    "betimes.service.runtime.faults": {"betimes.service.runtime.inbox"},
    "betimes.workload.family_demands": {"betimes.workload.workload"},
    "betimes.workload.validation": {"betimes.workload.workload"},
    "betimes.workload.writing": {"betimes.workload.workload"},
}
"""Imports of types that close a circle; there are to be no more."""


def _modules() -> dict[str, Path]:
    names: dict[str, Path] = {}
    for path in (path for source in SOURCES for path in source.rglob("*.py")):
        root = next(source for source in SOURCES if path.is_relative_to(source))
        parts = path.relative_to(root).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def _statements(node: ast.AST, *, types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports anywhere; types: with those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test) and not types:
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from _statements(child, types=types)


def _graph(modules: dict[str, Path]) -> Graph:
    """What each module imports; a package's own types are what it exports once they are used (`betimes.lazy`)."""
    graph: Graph = {}
    for name, path in modules.items():
        found = set[str]()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for statement in _statements(tree, types=path.name != "__init__.py"):
            if isinstance(statement, ast.Import):
                found.update(alias.name for alias in statement.names)
            else:
                above = ".".join(name.split(".")[: -statement.level]) + "." if statement.level else ""
                module = f"{above}{statement.module}"
                for alias in statement.names:
                    part = f"{module}.{alias.name}"
                    found.add(part if part in modules else module)
        graph[name] = found & modules.keys()
    return graph


def cycle(graph: Graph) -> list[str]:
    """A circle of modules, its first one again at the end; empty where there is none."""
    done, path = set[str](), list[str]()

    def search(name: str) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        path.append(name)
        for other in sorted(graph[name]):
            if found := search(other):
                return found
        path.pop()
        done.add(name)
        return []

    for name in sorted(graph):
        if found := search(name):
            return found
    return []


def test_a_circle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_module_imports_itself_through_others() -> None:
    modules = _modules()
    assert len(modules) > 400
    graph = _graph(modules)
    for name, others in KNOWN.items():
        assert others <= graph[name], f"{name} no longer imports these: take them out of KNOWN"
        graph[name] -= others
    found = cycle(graph)
    assert not found, " -> ".join(found)
