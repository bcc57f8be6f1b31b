"""Slurm's sacctmgr and sshare: groups of users as accounts, which are shown and not changed.

Source: the manual pages of sacctmgr and sshare, Slurm 24.11.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.cli.slurm_fields import width_of
from betimes.cli.slurm_jobs import PARTITION, clock, full_clock, service_here
from betimes.cli.slurm_listing import print_table
from betimes.cli.slurm_options import Asked
from betimes.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from betimes.client.plain import PlainClient

CHANGING = ("add", "archive", "clear", "create", "delete", "dump", "load", "modify", "reconfigure", "remove")


class Association(NamedTuple):
    """A group (user: empty), or a user in it. standing: of its user, where users share; limits: of the user."""

    group: Any
    user: str = ""
    weight: float = 1.0
    recent_frac: float | None = None
    share_frac: float | None = None
    used_s: float = 0.0  # core-seconds, in all
    limits: Any = None

    def limit(self, name: str) -> Any:
        """A limit of the user, or of the group itself; null: none."""
        return getattr(self.limits if self.user else self.group, name, None)


def _text(value: Any) -> str:
    return "" if value is None else f"{value:g}"


def _wall(of: Association) -> str:
    limit_s = of.limit("max_time_s")
    return "" if limit_s is None else full_clock(clock(limit_s))


def _fair(of: Association) -> str:
    if of.recent_frac is None or not of.share_frac:
        return ""
    return f"{2 ** (-of.recent_frac / of.share_frac):.6f}"


def _of_group(name: str) -> Callable[[Association], str]:
    return lambda of: "" if of.user else _text(getattr(of.group, name))


def _of_user(name: str) -> Callable[[Association], str]:
    return lambda of: _text(of.limit(name)) if of.user else ""


_FIELDS: dict[str, tuple[str, int, Callable[[Association], str]]] = {
    "account": ("Account", 10, lambda of: of.group.name),
    "admin": ("Admin", 9, lambda _: "None"),
    "cluster": ("Cluster", 10, lambda _: PARTITION),
    "defaultaccount": ("Def Acct", 10, lambda of: of.group.name),
    "description": ("Descr", 20, lambda of: of.group.name),
    "effectvusage": (
        "EffectvUsage",
        13,
        lambda of: "" if of.recent_frac is None else f"{of.recent_frac:.6f}",
    ),
    "fairshare": ("FairShare", 10, _fair),
    "grpjobs": ("GrpJobs", 7, _of_group("max_running_jobs")),
    "grpsubmit": ("GrpSubmit", 9, _of_group("max_queued_jobs")),
    "maxjobs": ("MaxJobs", 7, _of_user("max_running_jobs")),
    "maxsubmit": ("MaxSubmit", 9, _of_user("max_queued_jobs")),
    "maxwall": ("MaxWall", 11, _wall),
    "normshares": ("NormShares", 11, lambda of: "" if of.share_frac is None else f"{of.share_frac:.6f}"),
    "organization": ("Org", 20, lambda of: of.group.name),
    "partition": ("Partition", 10, lambda _: ""),
    "rawshares": ("RawShares", 10, lambda of: _text(of.weight)),
    "rawusage": ("RawUsage", 11, lambda of: str(round(of.used_s))),
    "share": ("Share", 9, lambda of: _text(of.weight)),
    "user": ("User", 10, lambda of: of.user),
}
_USUAL = {
    "account": "account,description,organization",
    "association": "cluster,account,user,partition,share,grpjobs,grpsubmit,maxjobs,maxsubmit,maxwall",
    "user": "user,defaultaccount,admin",
    "sshare": "account,user,rawshares,normshares,rawusage,effectvusage,fairshare",
}


def sacctmgr(words: Sequence[str]) -> None:
    """List accounts, users or associations: the groups of the service's settings, and their users."""
    asked = Asked("sacctmgr", words)
    verb, what, *rest = [*asked.rest, "", ""]
    if verb in CHANGING:
        raise InputError(
            f"{verb}: accounts are groups of the service's settings ([[groups]]), and changed there"
        )
    kind = next(
        (each for each in ("account", "association", "user") if what and each.startswith(what.rstrip("s"))),
        "",
    )
    if not kind:
        return  # of QOS and all else there is none
    given = {name.lower(): value for name, equals, value in (word.partition("=") for word in rest) if equals}
    names = {word for word in rest if word and "=" not in word and word.lower() != "where"}
    users = _names(given.get("user") or given.get("users"), names if kind == "user" else set())
    accounts = _names(given.get("account") or given.get("accounts"), names if kind == "account" else set())
    with service_here() as service:
        found = _associations(service)
    chosen = [
        each
        for each in found
        if (kind == "association" or bool(each.user) == (kind == "user"))
        and (not users or each.user in users)
        and (not accounts or each.group.name in accounts)
    ]
    usual = _USUAL[kind] + (f",{_USUAL['association']}" if asked.has("associations") else "")
    _print(asked, given.get("format") or usual, chosen)


def sshare(words: Sequence[str]) -> None:
    """List the shares of groups, and of their users, with what they have used of late."""
    asked = Asked("sshare", words)
    users, accounts = asked.words("users"), asked.words("accounts")
    with service_here() as service:
        found = _associations(service)
        if asked.has("Users") and users is None:
            users = {service.me().user}
    chosen = [
        each
        for each in found
        if (accounts is None or each.group.name in accounts)
        and (users is None or each.user in users or not (each.user or asked.has("Users")))
    ]
    _print(asked, asked.value("format") or _USUAL["sshare"], chosen)


def _names(text: str | None, others: set[str]) -> set[str]:
    return {part for part in (text or "").split(",") if part} | others


def _associations(service: PlainClient) -> list[Association]:
    """Each group, and behind it its users."""
    groups = service.groups()
    if not groups:
        return []
    users = {user.name: user for user in service.users()}
    used = {each.name: each for each in service.usage(None, 0.0, by="user").groups}
    found: list[Association] = []
    for group in groups:
        members = [_member(group, name, users.get(name), used.get(name)) for name in group.users]
        whole_s = sum(member.used_s for member in members)
        found.append(Association(group, "", group.weight, group.recent_frac, group.share_frac, whole_s))
        found += members
    return found


def _member(group: Any, name: str, user: Any, used: Any) -> Association:
    weight, limits = (1.0, None) if user is None else (user.weight, user.limits)
    if used is None:
        return Association(group, name, weight, limits=limits)
    return Association(
        group, name, weight, used.recent_frac, used.share_frac, used.figures.core_h * 3600.0, limits
    )


def _print(asked: Asked, pattern: str, found: Sequence[Association]) -> None:
    columns: list[tuple[str, int, Callable[[Association], str]]] = []
    for part in filter(None, pattern.split(",")):
        name, _, given = part.strip().partition("%")
        plain = re.sub(r"[^a-z]", "", name.lower())
        known = (
            plain
            if plain in _FIELDS
            else next((key for key in _FIELDS if plain and key.startswith(plain)), "")
        )
        field = _FIELDS.get(known)
        if field is None:
            raise InputError(f"format={name[:40]}: is not known; of {', '.join(_FIELDS)}")
        width = width_of(given.lstrip("-")) if given else field[1]
        columns.append((field[0], -width if given.startswith("-") else width, field[2]))
    if found:
        rows = [[text(each) for _, _, text in columns] for each in found]
        print_table(asked, [(head, width) for head, width, _ in columns], rows)
