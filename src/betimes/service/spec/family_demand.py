"""Demand of a job's unit on a family of machines: in the API, in job files, and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticKnownError

from betimes.units import parse_gib

MOST_AMOUNT = 1e6  # cores, GPUs, GiB


def _no_switch(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticKnownError("float_type")
    return value


NUMBER = BeforeValidator(_no_switch)  # true is no number in JSON, and 1 to pydantic
Amount = Annotated[float, Field(ge=0, le=MOST_AMOUNT, allow_inf_nan=False), NUMBER]
MOST_SPEED = 1e6
EXPECTED = "expected a family and what a unit needs there, as in p3:gpu=1,cpu=4,memory=10GiB,speed=2.5"
_SPELT = {"memory": "memory_gib"}


class FamilyDemand(BaseModel):
    """The demand of a unit on machines of one family; a resource that is left out is as the job has it beside it.

    speed: how fast the job works there. Its run time, and what it is believed to take, is that at speed 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpu: Amount | None = None
    cpu: Amount | None = None  # cores
    memory_gib: Amount | None = None
    speed: Annotated[float, Field(gt=0, le=MOST_SPEED, allow_inf_nan=False), NUMBER] = 1.0


def read_demands(given: Mapping[str, Any]) -> dict[str, Any]:
    """Tables by family as a job file has them, where `memory = "10GiB"` stands for `memory_gib`. Raises ValueError."""
    return {family: _canonical(family, table) for family, table in given.items()}


def parse_demand(text: str) -> tuple[str, dict[str, Any]]:
    """`p3:gpu=1,cpu=4,memory=10GiB`: the family, and a unit's demand there. Raises ValueError."""
    family, colon, amounts = text.partition(":")
    table = dict[str, Any]()
    for part in amounts.split(","):
        name, equals, amount = part.partition("=")
        if not (colon and family and equals) or name in table:
            raise ValueError(f"{EXPECTED}; found {text[:60]!r}")
        table[name] = amount if name == "memory" else _number(amount, text)
    return family, _canonical(family, table)


def _canonical(family: str, given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    found, table = dict[str, Any](), cast("Mapping[str, Any]", given)
    for name, amount in table.items():
        field = _SPELT.get(name, name)
        if field in found:
            raise ValueError(f"{family}: memory and memory_gib say the same; leave one of them out")
        found[field] = parse_gib(amount) if name == "memory" and isinstance(amount, str) else amount
    return found


def _number(amount: str, text: str) -> float:
    try:
        return float(amount)
    except ValueError:
        raise ValueError(f"{EXPECTED}; found {text[:60]!r}") from None
