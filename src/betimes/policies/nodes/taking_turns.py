"""Members of a portfolio: the 60 of the paper, any other policy for nodes, and users' own.

A name or pattern of the 60 is `odb/unicef/best`, `odb*`; any other policy goes by its name or a pattern, a user's by
FILE.py:NAME, with parameters after a slash: `easy/order=sjf`, `*jf/backfill=easy`, `mine.py:newest/P=2`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from betimes import plugins
from betimes.errors import PolicyError
from betimes.policies.hooks import Value
from betimes.policies.loading import installed_policy
from betimes.policies.nodes.hooks import Member, NodesPolicy
from betimes.policies.nodes.provisioning import TICK_S
from betimes.policies.parsing import parsed
from betimes.policies.registry import POLICIES

Candidates = Mapping[str, tuple[NodesPolicy, dict[str, Value | None]]]

ALONE: Mapping[str, tuple[Value, str]] = {
    "waits": ("none", "which foresees waits under this member, and not under those that may follow"),
    "requeue": (
        "arrival",
        "and who has run in vain stands in an order of his own, which no other member keeps",
    ),
    "spot": ("false", "which would put further machines on offer for the other members, too"),
}
"""Parameters that have only one possible value for a member, and the reason."""

WHERE = "policy portfolio, parameter members"


def named(text: str, sixty: Candidates, others: Mapping[str, NodesPolicy], tick_s: float) -> list[Member]:
    """The members that `text` names, joined by `+`: first those of the 60, in their order, then the others as named.

    Raises PolicyError for none, an unknown one, one named twice, and for members that cannot take turns.
    """
    parts = [part.strip() for part in text.split("+") if part.strip()]
    if not parts:
        raise PolicyError(f"{WHERE}: {text!r} names no policy; name some, as in odb*, or leave it out")
    patterns = [part for part in parts if any(fnmatchcase(name, part) for name in sixty)]
    members = [
        Member(name, policy, {**values, TICK_S.name: tick_s})
        for name, (policy, values) in sixty.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    ]
    for part in parts:
        if part not in patterns:
            members += _others(part, sixty, others, tick_s)
    names = [member.name for member in members]
    for name in names:
        if names.count(name) > 1:
            raise PolicyError(f"{WHERE}: {name} is named {names.count(name)} times; name it once")
    for at, member in enumerate(members):
        for before in members[:at]:
            if member.policy == before.policy and member.values == before.values:
                raise PolicyError(
                    f"{WHERE}: {member.name} and {before.name} are the same policy; leave one of them out"
                )
    _check_turns(members)
    return members


def _others(part: str, sixty: Candidates, known: Mapping[str, NodesPolicy], tick_s: float) -> list[Member]:
    """The policies beyond the 60 that one part of the text names."""
    file, colon, rest = part.partition(".py:")
    pattern, slash, given = (rest if colon else part).partition("/")
    name, is_misspelt, parameter = pattern.partition(":")
    if is_misspelt:
        raise PolicyError(
            f"{WHERE}: {part}: the parameters of a member follow slashes, as colons and commas are the portfolio's; "
            f"write {name}/{parameter or 'order=sjf'}"
        )
    if colon:
        sources = [f"{file}.py:{pattern}"]
    else:
        sources = [name for name in known if fnmatchcase(name, pattern)]
        if slash and "=" not in given:  # the name of one of the 60, misspelt
            sources = []
        if not sources and pattern in POLICIES and "heterogeneous=yes" in given.split("/"):
            raise PolicyError(
                f"{WHERE}: {pattern} with heterogeneous=yes cannot take turns with other policies; leave it out, or "
                "run it by itself"
            )
        if not sources and pattern in POLICIES:
            raise PolicyError(
                f"{WHERE}: {pattern} shares a pool, and a portfolio decides about nodes; leave it out, or run it by "
                "itself, without --cluster"
            )
        if not sources and isinstance(installed_policy(pattern), NodesPolicy):
            sources = [pattern]
        if not sources:
            hint = plugins.or_else(
                plugins.POLICIES, pattern if "=" in given else part, [*sixty, *known], most=3
            )
            raise PolicyError(f"{WHERE}: no policy is called {part!r}{hint}")
    members: list[Member] = []
    for source in sources:
        parameters = re.sub(r"/(?=\w+=)", ",", given)  # a slash before anything else is a fraction's
        try:
            chosen = parsed(source + (f":{parameters}" if slash else ""), known, NodesPolicy)
        except PolicyError as error:
            raise PolicyError(f"{WHERE}: {part}: {error}") from error
        values = dict(chosen.values)
        if "waits" in values and "waits" not in chosen.given:
            values["waits"] = ALONE["waits"][0]
        if chosen.policy.provision is not None and TICK_S.name not in chosen.given:
            values[TICK_S.name] = tick_s
        members.append(Member(source + (f"/{given}" if slash else ""), chosen.policy, values))
    return members


def _check_turns(members: Sequence[Member]) -> None:
    """Refuse members that cannot take turns on one cluster; raises PolicyError."""
    first = members[0]
    for member in members:
        policy, where = member.policy, f"{WHERE}: {member.name}"
        if policy.members is not None:
            raise PolicyError(f"{where} is a portfolio itself; name its members instead")
        if (policy.planner is None) != (first.policy.planner is None):
            plans, other = (member, first) if policy.planner is not None else (first, member)
            raise PolicyError(
                f"{WHERE}: {plans.name} plans in rounds of its own, and cannot take turns with {other.name}, which "
                "does not; name members that all plan, or none"
            )
        for name, (meant, why) in ALONE.items():
            if member.values.get(name, meant) not in (meant, None):
                raise PolicyError(f"{where} has {name}={member.values[name]}, {why}; write /{name}={meant}")
        if (policy.provision is None) != (first.policy.provision is None):
            rents, owns = (member, first) if policy.provision is not None else (first, member)
            raise PolicyError(
                f"{WHERE}: {rents.name} rents machines, and {owns.name} knows the cluster's own only; name "
                "members that all do the one or all the other"
            )
        if member.values.get(TICK_S.name) != first.values.get(TICK_S.name):
            raise PolicyError(f"{where} has another tick than {first.name}; give tick= to the portfolio only")
        if policy.by_priority != first.policy.by_priority:
            raise PolicyError(
                f"{WHERE}: one of {first.name} and {member.name} goes by the jobs' priorities, the other by trial "
                "jobs; name members that all do the one or all the other"
            )
