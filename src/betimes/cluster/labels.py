"""Labels of machines, and the one rule of which machines suit a job: those with every label that the job requires.

A label is a key and a value, written `zone=a`. The engine tests it on whole numbers: each label that a job requires
is a bit (`mask`), and a machine suits the job if it has all bits of it (`core.placements.takes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from betimes.cluster.checks import shown
from betimes.errors import ClusterError

if TYPE_CHECKING:
    from betimes.cluster.resources import Amounts

Labels = tuple[tuple[str, str], ...]
"""Keys and values, sorted by their keys, no key twice."""

Shapes = tuple[tuple["Amounts", Labels], ...]
"""What machines have of each resource, and their labels."""

MOST_LABELS = 100  # of a machine, and required by a job
MOST_CHARACTERS = 256  # of a key, and of a value
MOST_REQUIRED = 62  # different labels that all jobs of an engine together require: bits of a whole number
MOST_NAMED = 12  # labels in a message

NONE: Labels = ()


def labels_of(given: Mapping[str, str]) -> Labels:
    """A mapping of keys to values as labels. Raises ClusterError, without naming the field."""
    if len(given) > MOST_LABELS:
        raise ClusterError(f"expected at most {MOST_LABELS} labels, found {len(given)}")
    for key, value in given.items():
        for what, text in (("key", key), ("value", value)):
            if fault := _fault(text, may_be_empty=what == "value"):
                raise ClusterError(f"expected labels such as zone=a; the {what} {shown(text)} {fault}")
    return tuple(sorted(given.items()))


def check_labels(field: str, labels: Labels) -> None:
    """Raises ClusterError, naming the field, for what are no labels."""
    try:
        sound = labels_of(dict(labels)) == labels
    except (TypeError, ValueError):
        sound = False
    except ClusterError as error:
        raise ClusterError(f"field {field}: {error}") from None
    if not sound:
        raise ClusterError(f"field {field}: expected pairs of a key and a value, sorted, found {shown(labels)}")


def parse_labels(texts: Iterable[str]) -> Labels:
    """Labels from texts such as `zone=a`. Raises ClusterError, without naming the field."""
    found: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise ClusterError(f"expected a label such as zone=a, found {shown(text)}")
        if found.get(key, value) != value:
            raise ClusterError(f"expected one value of {key}, found {found[key]} and {value}; leave one out")
        found[key] = value
    return labels_of(found)


def as_texts(labels: Labels) -> list[str]:
    """Labels as they are written: `zone=a`."""
    return [f"{key}={value}" for key, value in labels]


def suits(has: Labels, required: Labels) -> bool:
    """Whether a machine with these labels suits a job that requires those."""
    return not required or set(required) <= set(has)


@lru_cache(maxsize=4096)
def suiting(shapes: Shapes, required: Labels) -> tuple[Amounts, ...]:
    """What those machines have that suit a job."""
    return tuple(amounts for amounts, labels in shapes if suits(labels, required))


def mask(labels: Labels, bits: Mapping[tuple[str, str], int]) -> int:
    """The bits of those labels that have one."""
    found = 0
    for label in labels:
        found |= bits.get(label, 0)
    return found


def bits_for(required: Iterable[Labels]) -> dict[tuple[str, str], int]:
    """A bit for each label of which any is required. Raises ClusterError for more of them than there are bits."""
    found: dict[tuple[str, str], int] = {}
    for labels in required:
        for label in labels:
            if label not in found:
                found[label] = 1 << len(found)
    if len(found) > MOST_REQUIRED:
        raise ClusterError(
            f"jobs require {len(found)} different labels; expected at most {MOST_REQUIRED} at a time"
        )
    return found


def why_none_suits(required: Labels, machines: Sequence[Labels], what: str = "node") -> str | None:
    """Why no machine suits a job: which label none has, and what machines have instead; null: some machine does."""
    if any(suits(labels, required) for labels in machines):
        return None
    known = set[tuple[str, str]]().union(*machines)
    lacking = tuple(label for label in required if label not in known)
    if not lacking:
        return f"no {what} has {' and '.join(as_texts(required))} at once"
    keys = {key for key, _ in lacking}
    instead = sorted(f"{key}={value}" for key, value in known if key in keys)
    told = ", ".join(instead[:MOST_NAMED]) + (", ..." if len(instead) > MOST_NAMED else "")
    have = f"{what}s have {told}" if instead else f"no {what} has a label {' or '.join(sorted(keys))}"
    return f"no {what} has {' or '.join(as_texts(lacking))}; {have}"


def _fault(text: object, *, may_be_empty: bool) -> str | None:
    if not isinstance(text, str):
        return "is no text"
    if not text and not may_be_empty:
        return "is empty"
    if len(text) > MOST_CHARACTERS:
        return f"has more than {MOST_CHARACTERS} characters"
    if not text.isprintable() or any(char.isspace() or char in ",=" for char in text):
        return "holds a blank, a comma, an equals sign or what cannot be printed"
    return None
