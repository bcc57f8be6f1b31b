"""Betimes's own cluster files, in TOML.

::

    name = "two racks"          # the file's name by default
    grace_limit_s = 1200        # the longest grace period a job may ask for; 3600 by default
    quota = 256                 # the most machines rented at once; any number by default
    seed = 0                    # of what is drawn by lot about rented machines; 0 by default
    interference = "eva"        # a table that ships or a CSV file beside this one; none by default

    [[nodes]]                   # one table a group of equal nodes that are owned
    type = "a100"
    count = 4                   # 1 by default
    gpu = 8                     # 0 by default
    cpu = 128                   # cores
    memory_gib = 1024
    usd_per_h = 32.77           # the price of one; none by default
    reserved_discount_frac = 0.6 # what a reservation saves of it; 0 by default
    labels = { zone = "a" }     # which jobs may require of their nodes; none by default
    family = "a100"             # of types on which a task needs the same; before the type's dot by default

    [[maintenance]]             # no job starts that would run into it, in the simulator; any number of tables
    from_s = 3600               # seconds of the trace
    to_s = 7200
    nodes = ["a100-0"]          # all by default; named by type, numbered from 0

    [[offers]]                  # one table an instance type that can be rented
    type = "p3.8xlarge"
    family = "p3"               # of types on which a task needs the same; before the type's dot by default
    gpu = 4                     # 0 by default
    cpu = 16
    memory_gib = 244
    usd_per_h = 12.24           # on demand
    capacity = 20               # the most that there are at once; any number by default
    boot_s = 37                 # from the request until it has booted; 0 by default
    setup_s = 192               # then, until tasks start on it; 0 by default
    release_s = 1               # from being given back until it is gone; 0 by default
    min_bill_s = 60             # the least that is charged for; 0 by default
    bill_step_s = 1             # charged in whole steps of that, as they begin; 0, to the moment, by default
    bill_from = "boot"          # or "request"; boot by default, at the end of boot_s
    spot = { price_factor = 0.3, revocation = "bathtub" }  # true: as here; false, on demand, by default
    price_changes = [{ at_s = 3600, usd_per_h = 4.1 }]  # the price from then on, in the simulator; none by default
    speeds = { resnet18 = 2.5 } # how fast a job of a workload runs on it; 1 by default
    labels = { zone = "a" }     # of its machines, as of nodes
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from betimes.cluster.catalogue import catalogue_path
from betimes.cluster.checks import shown
from betimes.cluster.cluster import DEFAULT_GRACE_LIMIT_S, Cluster, Maintenance, NodeGroup
from betimes.cluster.interference import Interference, interference_tables, read_interference
from betimes.cluster.labels import Labels, labels_of
from betimes.cluster.offer import Offer, Spot
from betimes.cluster.resources import RESOURCES, whole_capacity
from betimes.cluster.revocation import REVOCATIONS, parameters
from betimes.errors import ClusterError, did_you_mean

_TOP = (
    "name",
    "grace_limit_s",
    "nodes",
    "offers",
    "catalogue",
    "quota",
    "seed",
    "interference",
    "maintenance",
    "ec2",
    "fleet",
)
_NODES = (
    "type",
    "count",
    "gpu",
    "cpu",
    "memory_gib",
    "usd_per_h",
    "reserved_discount_frac",
    "labels",
    "family",
)
_NEEDED = ("type", "cpu", "memory_gib")
_OFFERS = tuple(field.name for field in fields(Offer))
_OFFERS_NEEDED = (*_NEEDED, "usd_per_h")
_MAINTENANCE = ("from_s", "to_s", "nodes")
_SPOT = ("price_factor", "revocation")
_PRICE_CHANGE = ("at_s", "usd_per_h")
_DEFAULT_REVOCATION = "bathtub"

_Checked = TypeVar("_Checked", NodeGroup, Offer)


def parse(text: str, path: Path) -> Cluster:
    """The cluster of a TOML file; raises ClusterError naming file, table (from 1) and field."""
    return cluster_of(document(text, path), path)


def document(text: str, path: Path) -> dict[str, Any]:
    """The content of a TOML file; raises ClusterError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:160]
        raise ClusterError(
            f"{path}: neither an openb node list nor TOML ({reason}): expected [[nodes]] with "
            f"{', '.join(_NODES)}"
        ) from None


def cluster_of(found: dict[str, Any], path: Path) -> Cluster:
    """The cluster that a file of this path describes; raises ClusterError as `parse` does."""
    check_known(found, _TOP, f"{path}, field ")
    groups = [_group(table, where) for table, where in tables(found, "nodes", _NODES, path)]
    offers = [offer_of(table, where) for table, where in tables(found, "offers", _OFFERS_NEEDED, path)]
    windows = [_maintenance(*each) for each in tables(found, "maintenance", _MAINTENANCE, path)]
    try:
        if "catalogue" in found:
            offers = [*_of_catalogue(found["catalogue"]), *offers]
        if not groups and not offers:
            raise ClusterError(
                f"field nodes: expected at least one table [[nodes]] with {', '.join(_NODES)}, or one [[offers]] with "
                f"{', '.join(_OFFERS_NEEDED)} and more"
            )
        return Cluster(
            found.get("name", _stem(path)),
            tuple(groups),
            found.get("grace_limit_s", DEFAULT_GRACE_LIMIT_S),
            tuple(offers),
            found.get("quota"),
            found.get("seed", 0),
            _interference(found["interference"], path) if "interference" in found else None,
            tuple(windows),
        )
    except ClusterError as error:
        raise ClusterError(f"{path}, {error}") from None


def _maintenance(table: Any, where: str) -> Maintenance:
    check_table(table, where, "maintenance", _MAINTENANCE, _MAINTENANCE[:2])
    nodes = table.get("nodes", [])
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise ClusterError(f"{where}, field nodes: expected a list of names, found {shown(nodes)}")
    try:
        return Maintenance(table["from_s"], table["to_s"], tuple(nodes))
    except ClusterError as error:
        raise ClusterError(f"{where}, {error}") from None


def _interference(named: Any, path: Path) -> Interference:
    """The table that a cluster file names: one that ships, or a file beside it."""
    if not isinstance(named, str) or not named:
        raise ClusterError(
            f"field interference: expected {' or '.join(interference_tables())} or the path of a CSV file, found "
            f"{shown(named)}"
        )
    return read_interference(named if named in interference_tables() else path.parent / named)


def offer_of(table: Any, where: str) -> Offer:
    """The offer of a table; raises ClusterError, which begins with `where`."""
    check_table(table, where, "offer", _OFFERS, _OFFERS_NEEDED)
    given = dict(table)
    _check_family(given, where)
    if "spot" in given:
        given["spot"] = _spot(given["spot"], where)
    if "price_changes" in given:
        given["price_changes"] = _price_changes(given["price_changes"], where)
    if "speeds" in given:
        given["speeds"] = _speeds(given["speeds"], where)
    if "labels" in given:
        given["labels"] = labels_in(given["labels"], where)
    offer = _sized(table, where, lambda: Offer(**given))
    numbers = (
        name for name in _OFFERS if isinstance(given.get(name), int) and name not in ("capacity", "spot")
    )
    return replace(offer, **{name: float(given[name]) for name in numbers})


def tables(
    found: dict[str, Any], name: str, fields: tuple[str, ...], path: Path
) -> Iterable[tuple[Any, str]]:
    """The tables `[[name]]` of a file, each with where it stands; raises ClusterError for what is no list of any."""
    listed = found.get(name, [])
    if not isinstance(listed, list):
        raise ClusterError(
            f"{path}, field {name}: expected at least one table [[{name}]] with {', '.join(fields)}"
        )
    return ((table, f"{path}, [[{name}]] table {number}") for number, table in enumerate(listed, 1))


def check_table(table: Any, where: str, what: str, known: tuple[str, ...], needed: tuple[str, ...]) -> None:
    """A table that has no unknown field and lacks none that is needed, or ClusterError, which begins with `where`."""
    if not isinstance(table, dict):
        raise ClusterError(f"{where}: expected a table with {', '.join(known)}")
    check_known(table, known, f"{where}, field ")
    for field in needed:
        if field not in table:
            raise ClusterError(f"{where}, field {field}: missing; every {what} needs it")


def check_known(table: dict[str, Any], names: tuple[str, ...], field: str) -> None:
    """No key but these names, or ClusterError, which begins with `field`."""
    for key in table:
        if key not in names:
            hint = did_you_mean(key, names)
            raise ClusterError(f"{field}{key[:40]!r}: unknown{hint}; known are {', '.join(names)}")


def _group(table: Any, where: str) -> NodeGroup:
    check_table(table, where, "group of nodes", _NODES, _NEEDED)
    given = {"count": 1, "gpu": 0} | table
    _check_family(given, where)
    if "labels" in given:
        given["labels"] = labels_in(given["labels"], where)
    group = _sized(table, where, lambda: NodeGroup(**given))
    price = None if group.usd_per_h is None else float(group.usd_per_h)
    amounts = dict(zip(RESOURCES, (float(amount) for amount in group.amounts), strict=True))
    discount = float(group.reserved_discount_frac)
    return replace(group, usd_per_h=price, reserved_discount_frac=discount, **amounts)


def _check_family(given: dict[str, Any], where: str) -> None:
    if given.get("family") == "":
        raise ClusterError(
            f"{where}, field family: expected a printable name, found ''; leave it out for what the type has before "
            "its dot"
        )


def _price_changes(value: Any, where: str) -> tuple[tuple[float, float], ...]:
    expected = f"{where}, field price_changes: expected a list of {{ {', '.join(_PRICE_CHANGE)} }}"
    if not isinstance(value, list):
        raise ClusterError(f"{expected}, found {shown(value)}")
    for number, change in enumerate(value, 1):
        if not isinstance(change, dict) or set(change) != set(_PRICE_CHANGE):
            raise ClusterError(f"{expected}; number {number} is {shown(change)}")
    return tuple((change["at_s"], change["usd_per_h"]) for change in value)


def _speeds(value: Any, where: str) -> tuple[tuple[str, float], ...]:
    if not isinstance(value, dict):
        raise ClusterError(
            f"{where}, field speeds: expected a table of workloads and speeds, found {shown(value)}"
        )
    return tuple(
        (name, float(speed) if isinstance(speed, int) and not isinstance(speed, bool) else speed)
        for name, speed in value.items()
    )


def labels_in(value: Any, where: str) -> Labels:
    """The labels of a table; raises ClusterError, which begins with `where`."""
    if not isinstance(value, dict):
        raise ClusterError(
            f'{where}, field labels: expected a table such as {{ zone = "a" }}, found {shown(value)}'
        )
    try:
        return labels_of(value)
    except ClusterError as error:
        raise ClusterError(f"{where}, field labels: {error}") from None


def _spot(value: Any, where: str) -> Spot | None:
    if isinstance(value, bool):
        return Spot() if value else None
    if not isinstance(value, dict):
        raise ClusterError(
            f"{where}, field spot: expected true, false or a table with {', '.join(_SPOT)}, found {shown(value)}"
        )
    name = value.get("revocation", _DEFAULT_REVOCATION)
    if not isinstance(name, str) or name not in REVOCATIONS:
        raise ClusterError(
            f"{where}, field spot.revocation: expected {', '.join(REVOCATIONS)}, found {shown(name)}"
        )
    kind = REVOCATIONS[name]
    check_known(value, (*_SPOT, *parameters(kind)), f"{where}, field spot.")
    given = {key: number for key, number in value.items() if key in parameters(kind)}
    if name == "exponential" and "mean_h" not in given:
        raise ClusterError(f"{where}, field spot.mean_h: missing; an exponential revocation needs it")
    try:
        revocation = kind(**given)
        floats = {key: float(number) for key, number in given.items()}
        return Spot(
            float(Spot(value.get("price_factor", Spot.price_factor)).price_factor),
            replace(revocation, **floats),
        )
    except ClusterError as error:
        raise ClusterError(f"{where}, {str(error).replace('field ', 'field spot.', 1)}") from None


def _of_catalogue(name: Any) -> tuple[Offer, ...]:
    try:
        path = catalogue_path(name)
    except ClusterError as error:
        raise ClusterError(f"field catalogue: {error}") from None
    return parse(path.read_text(encoding="utf-8"), path).offers


def _sized(table: dict[str, Any], where: str, make: Callable[[], _Checked]) -> _Checked:
    """The node or offer of a table, checked: cores and memory are needed, and no amount is below the smallest unit."""
    try:
        made = make()
    except ClusterError as error:
        raise ClusterError(f"{where}, {error}") from None
    for field in ("cpu", "memory_gib"):
        if table[field] == 0:
            raise ClusterError(f"{where}, field {field}: expected a number above 0, found 0")
    for field, amount, whole in zip(RESOURCES, made.amounts, whole_capacity(made.amounts), strict=True):
        if amount > 0 and whole == 0:
            least = "a MiB" if field == "memory_gib" else "a thousandth"
            raise ClusterError(f"{where}, field {field}: expected at least {least}, found {amount:g}")
    return made


def _stem(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).stem
