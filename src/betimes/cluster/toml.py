"""Betimes's own cluster files, in TOML.

::

    name = "two racks"          # the file's name by default
    grace_limit_s = 1200        # the longest grace period a job may ask for; 3600 by default

    [[nodes]]                   # one table a group of equal nodes
    type = "a100"
    count = 4                   # 1 by default
    gpu = 8                     # 0 by default
    cpu = 128                   # cores
    memory_gib = 1024
    usd_per_h = 32.77           # the price of one; none by default
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any

from betimes.cluster.cluster import DEFAULT_GRACE_LIMIT_S, Cluster, NodeGroup
from betimes.cluster.resources import RESOURCES, whole_capacity
from betimes.errors import ClusterError

_TOP = ("name", "grace_limit_s", "nodes")
_NODES = ("type", "count", "gpu", "cpu", "memory_gib", "usd_per_h")
_NEEDED = ("type", "cpu", "memory_gib")


def parse(text: str, path: Path) -> Cluster:
    """The cluster of a TOML file; raises ClusterError naming file, table (from 1) and field."""
    try:
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ClusterError(
            f"{path}: neither an openb node list nor TOML ({reason}): expected [[nodes]] with "
            f"{', '.join(_NODES)}"
        ) from None
    _known(found, _TOP, str(path))
    tables = found.get("nodes", [])
    if not isinstance(tables, list) or not tables:
        raise ClusterError(
            f"{path}, field nodes: expected at least one table [[nodes]] with {', '.join(_NODES)}"
        )
    groups = tuple(_group(table, f"{path}, [[nodes]] table {n}") for n, table in enumerate(tables, 1))
    try:
        return Cluster(
            found.get("name", _stem(path)), groups, found.get("grace_limit_s", DEFAULT_GRACE_LIMIT_S)
        )
    except ClusterError as error:
        raise ClusterError(f"{path}, {error}") from None


def _group(table: Any, where: str) -> NodeGroup:
    if not isinstance(table, dict):
        raise ClusterError(f"{where}: expected a table with {', '.join(_NODES)}")
    _known(table, _NODES, where)
    for field in _NEEDED:
        if field not in table:
            raise ClusterError(f"{where}, field {field}: missing; every group of nodes needs it")
    try:
        group = NodeGroup(
            table["type"],
            table.get("count", 1),
            table.get("gpu", 0),
            table["cpu"],
            table["memory_gib"],
            table.get("usd_per_h"),
        )
    except ClusterError as error:
        raise ClusterError(f"{where}, {error}") from None
    for field in ("cpu", "memory_gib"):
        if table[field] == 0:
            raise ClusterError(f"{where}, field {field}: expected a number above 0, found 0")
    for field, amount, whole in zip(RESOURCES, group.amounts, whole_capacity(group.amounts), strict=True):
        if amount > 0 and whole == 0:
            least = "a MiB" if field == "memory_gib" else "a thousandth"
            raise ClusterError(f"{where}, field {field}: expected at least {least}, found {amount:g}")
    price = None if group.usd_per_h is None else float(group.usd_per_h)
    return NodeGroup(group.type, group.count, *(float(amount) for amount in group.amounts), usd_per_h=price)


def _known(table: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key.lower(), names, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ClusterError(f"{where}, field {key[:40]!r}: unknown; {hint}known are {', '.join(names)}")


def _stem(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem
