"""Alibaba's openb node lists (cluster-trace-gpu-v2023): a CSV with one node a line."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from betimes.cluster.cluster import MOST_NODES, Cluster, NodeGroup
from betimes.errors import ClusterError

_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_OWN = frozenset({"cpu_milli", "memory_mib"})
_NO_MODEL = "cpu"  # the type of nodes without GPUs, which have no model
_MOST_DIGITS = 12


def recognise(text: str) -> bool:
    """Whether a text begins as an openb node list does; one column peculiar to these is enough."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return bool(_OWN & {name.strip() for name in first.split(",")})


def parse(text: str, path: Path) -> Cluster:
    """The cluster of an openb node list; raises ClusterError naming file, line and field.

    Nodes of equal capacity and model make a group, groups stand in the order of their first nodes.
    Source: alibaba/clusterdata, cluster-trace-gpu-v2023.
    """
    rows = _rows(text, path)
    header_line, header = next(rows)
    place = {name.strip(): at for at, name in enumerate(header)}
    for name in _COLUMNS:
        if name not in place:
            raise ClusterError(
                f"{path}, line {header_line}, field {name}: the column is missing; expected {', '.join(_COLUMNS)}"
            )
    seen: dict[str, int] = {}
    count: Counter[tuple[str, int, int, int]] = Counter()
    for line, cells in rows:
        where = f"{path}, line {line}"
        if len(cells) != len(header):
            raise ClusterError(f"{where}: expected {len(header)} fields, found {len(cells)}")
        cell = {name: cells[place[name]].strip() for name in _COLUMNS}
        name = cell["sn"]
        if not name:
            raise ClusterError(f"{where}, field sn: expected the node's name")
        if name in seen:
            raise ClusterError(
                f"{where}, field sn: expected a name not used yet (line {seen[name]} has it), found {name[:40]!r}"
            )
        seen[name] = line
        if len(seen) > MOST_NODES:
            raise ClusterError(f"{where}: expected at most {MOST_NODES} nodes")
        kind = (
            cell["model"] or _NO_MODEL,
            _whole(cell["gpu"], where, "gpu", least=0),
            _whole(cell["cpu_milli"], where, "cpu_milli", least=1),
            _whole(cell["memory_mib"], where, "memory_mib", least=1),
        )
        if kind not in count:
            _group(kind, 1, where)  # refused here, where the line is known
        count[kind] += 1
    if not count:
        raise ClusterError(f"{path}: there is a header but no node below it")
    groups = tuple(_group(kind, number, str(path)) for kind, number in count.items())
    return Cluster(Path(path.name.removesuffix(".gz")).stem, groups)


def _group(kind: tuple[str, int, int, int], count: int, where: str) -> NodeGroup:
    model, gpu, cpu_milli, memory_mib = kind
    try:
        return NodeGroup(model, count, float(gpu), cpu_milli / 1000, memory_mib / 1024)
    except ClusterError as error:
        raise ClusterError(f"{where}, {error}") from None


def _rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the number of its line."""
    # A cell that spans lines would break the numbering, and no node needs one.
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield number, next(csv.reader([line], strict=True))
            except csv.Error as error:
                raise ClusterError(f"{path}, line {number}: not a CSV line ({error})") from None


def _whole(text: str, where: str, field: str, *, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) >= least):
        raise ClusterError(
            f"{where}, field {field}: expected a whole number of {least} or more, found {text[:40]!r}"
        )
    return int(text)
