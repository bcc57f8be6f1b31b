"""What every policy of the model offers, and how a policy is named."""

from fractions import Fraction
from typing import Any

Number = Any


class Policy:
    """Decides from scratch, at every event, how many units each active job holds."""

    period: Number | None = None  # the seconds after which it may decide again by itself

    def on_arrival(self, job) -> None:
        """Called once for each job, before the first decision that sees it."""

    def grants(self, cluster) -> dict[int, Number]:
        """Units for each active job, by the job's index; `cluster.active` is in order of arrival."""
        raise NotImplementedError

    def wake_after(self, cluster) -> Number | None:
        """Seconds until it wants to decide again, asked right after a decision; None: not by itself."""


def parameters_of(spec: str) -> tuple[str, dict[str, str]]:
    """Split "name:key=value,key=value" into the name and its parameters."""
    name, _, rest = spec.partition(":")
    return name, dict(item.split("=", 1) for item in rest.split(",") if item)


def parse_number(text: str, number: type) -> Number:
    """Read "0.1", "5" or "3/4" as a float or, exactly, as a Fraction."""
    return number(Fraction(text))


def parse_list(text: str) -> list[str]:
    """Split the items of a list, joined by "+"."""
    return [item for item in text.split("+") if item]
