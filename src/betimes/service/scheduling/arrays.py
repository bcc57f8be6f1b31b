"""Large arrays that are being taken, as the ledger has them, and the kind of event about them.

Such an array is accepted whole: its jobs have their numbers from then on, and become jobs in slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Protocol

from betimes.service.scheduling.events import Event
from betimes.service.scheduling.job import Job
from betimes.service.scheduling.kind import SPEC, Data, Kind
from betimes.service.scheduling.reasons import reason
from betimes.service.spec.job_spec import JobSpec, parse_array
from betimes.units import length


@dataclass
class ComingArray:
    """An array of which the first elements are jobs by now; `first` is the number of the very first."""

    first: int
    spec: dict[str, Any]  # as submitted, as events have it
    user: str
    believed_s: float
    basis: str
    elements: int
    there: int = 0

    @cached_property
    def whole(self) -> JobSpec:
        """As submitted."""
        return JobSpec(**self.spec)

    @cached_property
    def indices(self) -> list[int]:
        """Those of all elements, in order."""
        return parse_array(self.whole.array or "")[0]

    @property
    def numbers(self) -> range:
        """The numbers of all elements."""
        return range(self.first, self.first + self.elements)

    @property
    def missing(self) -> range:
        """The numbers of those that are no jobs yet."""
        return self.numbers[self.there :]


@dataclass
class ComingArrays:
    """Those of which elements are missing, by their first number."""

    of: dict[int, ComingArray] = field(default_factory=dict[int, ComingArray])

    def __bool__(self) -> bool:
        return bool(self.of)

    def __iter__(self) -> Iterator[ComingArray]:
        return iter(self.of.values())

    def count(self, user: str | None = None) -> int:
        """The number of elements that are no jobs yet, of a user's arrays or of all."""
        return sum(len(each.missing) for each in self if user in (None, each.user))

    def submitted(self, job: Job) -> None:
        """A job is new, perhaps the next element of one of them."""
        array = self.of.get(job.array_id or 0)
        if array is not None:
            array.there += 1
            if not array.missing:
                del self.of[array.first]

    def to_json(self) -> dict[str, Any]:
        """Its keys of a snapshot; none, if no array is being taken."""
        return {"arrays": [asdict(each) for each in self]} if self.of else {}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> ComingArrays:
        """The arrays of a snapshot, which has more besides."""
        return cls({each["first"]: ComingArray(**each) for each in found.get("arrays", ())})


def limit_reached(first: int, most: int) -> dict[str, Any]:
    """The reason of an element that its array's own limit keeps waiting."""
    elements = f"{most} running element{'' if most == 1 else 's'}"
    return reason("array-limit", f"the limit of {elements} of array {first} is reached", most=most)


class _Ledger(Protocol):
    """The slice of the ledger that this kind changes."""

    arrays: ComingArrays
    next_job: int


def _submitted(ledger: _Ledger, event: Event, _: Job | None) -> None:
    array = ComingArray(**event.data)
    ledger.arrays.of[array.first] = array
    ledger.next_job = array.numbers.stop


def _words(data: Data) -> str:
    last = data["first"] + data["elements"] - 1
    estimate = f"each estimated at {length(data['believed_s'])} ({data['basis']})"
    return f"{data['elements']:,} elements, jobs {data['first']} to {last}, {estimate}"


KINDS: dict[str, Kind[_Ledger]] = {
    "array-submitted": Kind(
        "a large array was accepted whole; its elements are submitted in slices, under the numbers kept for them",
        _submitted,
        _words,
        data={"first": int, "elements": int, "user": str, "spec": SPEC, "believed_s": float, "basis": str},
    )
}
