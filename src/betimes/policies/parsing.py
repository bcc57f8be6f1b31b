"""Parsing of `wfq:thresholds=1627+969473,weights=19/20+1/20` into a policy with its parameters.

Parameters follow the name, separated by commas; a list is joined by ``+``; a number may be a fraction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from betimes import plugins
from betimes.errors import PolicyError, did_you_mean
from betimes.policies.hooks import Parameter, Policy, Value
from betimes.policies.loading import installed_policy, load_policy
from betimes.policies.nodes.hooks import NodesPolicy
from betimes.policies.pool.renting import RENTING
from betimes.units import SECONDS

LARGEST = 1e18  # limit of numbers in a specification


AnyPolicy = TypeVar("AnyPolicy", bound=Policy | NodesPolicy)


@dataclass(frozen=True)
class ChosenPolicy(Generic[AnyPolicy]):
    """A policy and the values of its parameters (None: not given and without default)."""

    policy: AnyPolicy
    values: dict[str, Value | None]
    given: tuple[str, ...]
    source: str  # the name as given: a published policy's, or FILE.py:NAME
    is_shipped: bool = True  # with Betimes: not from a user's file or another package

    @property
    def is_users(self) -> bool:
        """Whether the policy, or one of several that take turns, comes from a user's file or another package."""
        policy = self.policy
        if isinstance(policy, NodesPolicy) and policy.members is not None:
            return any(member.policy.is_users for member in policy.members(self.values))
        return not self.is_shipped

    def __str__(self) -> str:
        """The specification again, with the parameters that were given, in the order declared."""
        parts = [f"{name}={_text(self.values[name])}" for name in self.values if name in self.given]
        return self.source + (":" + ",".join(parts) if parts else "")


def parsed(text: str, known: Mapping[str, AnyPolicy], kind: type[AnyPolicy]) -> ChosenPolicy[AnyPolicy]:
    """One of the `known` policies, or a user's or another package's of that kind, with its parameters.

    Raises PolicyError.
    """
    if not text.isprintable():
        raise PolicyError(f"policy {text[:80]!r}: has characters that are no text; leave them out")
    name, _, rest = text.strip().partition(":")
    if name.endswith(".py"):
        function, _, rest = rest.partition(":")
        policy, source = load_policy(name, function, kind), f"{name}:{function}"
    elif name in known:
        policy, source = known[name], name
    else:
        policy, source = installed_policy(name), name
        if not isinstance(policy, kind):
            raise PolicyError(f"unknown policy {name!r}{plugins.or_else(plugins.POLICIES, name, known)}")
    parameters = (*policy.parameters, *(RENTING if kind is Policy else ()))
    declared = {p.name: p for p in parameters}
    given: dict[str, Value] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key not in declared:
            takes = f"it takes {', '.join(declared)}" if declared else "it takes none"
            if isinstance(policy, NodesPolicy) and policy.members is not None:
                takes += "; those of a member follow it after slashes, as in easy/order=sjf/window=3"
            raise PolicyError(
                f"policy {source} has no parameter {key!r}{did_you_mean(key, declared)}; {takes}"
            )
        if not equals or not value:
            raise PolicyError(f"policy {source}, parameter {key}: write {key}=VALUE")
        if key in given:
            raise PolicyError(f"policy {source}, parameter {key} is given twice")
        given[key] = _value(source, declared[key], value)
    values = {p.name: given.get(p.name, p.default) for p in parameters}
    return ChosenPolicy(policy, values, tuple(given), source, is_shipped=source in known)


def _value(source: str, parameter: Parameter, text: str) -> Value:
    where = f"policy {source}, parameter {parameter.name}"
    if parameter.choices:
        if text not in parameter.choices:
            raise PolicyError(
                f"{where}: {text!r} is none of {', '.join(parameter.choices)}{did_you_mean(text, parameter.choices)}"
            )
        return text
    if parameter.is_text:
        return text
    numbers = tuple(_number(where, piece) for piece in text.split("+")) if parameter.is_list else None
    if numbers is not None:
        for number in numbers:
            _check_range(where, parameter, float(number))
        return numbers
    number = _seconds(where, text) if parameter.is_duration else float(_number(where, text))
    _check_range(where, parameter, number)
    return number


def _seconds(where: str, text: str) -> float:
    """A duration: seconds, or a number with a unit."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in SECONDS else (text, "s")
    return float(_number(where, number)) * SECONDS[unit]


def _number(where: str, text: str) -> Fraction:
    try:
        if not all(abs(float(part)) < LARGEST for part in text.split("/")):
            raise ValueError
        number = Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise PolicyError(f"{where}: {text!r} is not a number or a fraction of numbers below 1e18") from None
    return number


def _check_range(where: str, parameter: Parameter, number: float) -> None:
    if not parameter.low <= number <= parameter.high:
        if math.isinf(parameter.high):
            raise PolicyError(f"{where}: {number:g} is below {parameter.low:g}")
        raise PolicyError(f"{where}: {number:g} is not between {parameter.low:g} and {parameter.high:g}")


def _text(value: Value | None) -> str:
    if isinstance(value, tuple):
        return "+".join(str(number) for number in value)
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)
