"""Labels of machines, and the one rule of which machines suit a job: those with every label that the job requires.

A label is a key and a value, written `zone=a`. The engine tests it on whole numbers: each label that a job requires
is a bit (`mask`), and a machine suits the job if it has all bits of it (`core.placements.takes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from betimes.cluster.checks import shown
from betimes.errors import ClusterError

Labels = tuple[tuple[str, str], ...]
"""Keys and values, sorted by their keys, no key twice."""

MOST_LABELS = 100  # of a machine, and required by a job
KEY_PATTERN = "^[A-Za-z0-9._:/@+-]{1,256}$"
VALUE_PATTERN = "^[A-Za-z0-9._:/@+-]{0,256}$"
ALPHABET = "at most 256 letters, digits and . _ : / @ + -"
_KEY, _VALUE = re.compile(KEY_PATTERN, re.ASCII), re.compile(VALUE_PATTERN, re.ASCII)
MOST_REQUIRED = 62  # different labels that all jobs of an engine together require: bits of a whole number
MOST_NAMED = 12  # labels in a message

NONE: Labels = ()


def is_label(key: str, value: str) -> bool:
    """Whether a key and a value can be a label."""
    return _KEY.fullmatch(key) is not None and _VALUE.fullmatch(value) is not None


def labels_of(given: Mapping[str, str]) -> Labels:
    """A mapping of keys to values as labels. Raises ClusterError, without naming the field."""
    if len(given) > MOST_LABELS:
        raise ClusterError(f"expected at most {MOST_LABELS} labels, found {len(given)}")
    for key, value in given.items():
        for what, text, known in (("key", key, _KEY), ("value", value, _VALUE)):
            if not isinstance(text, str) or not known.fullmatch(text):
                raise ClusterError(
                    f"expected labels such as zone=a, found the {what} {shown(text)}; give it {ALPHABET}"
                )
    return tuple(sorted(given.items()))


def check_labels(field: str, labels: Labels) -> None:
    """Raises ClusterError, naming the field, for anything but labels."""
    try:
        sound = labels_of(dict(labels)) == labels
    except (TypeError, ValueError):
        sound = False
    except ClusterError as error:
        raise ClusterError(f"field {field}: {error}") from None
    if not sound:
        raise ClusterError(
            f"field {field}: expected pairs of a key and a value, sorted, found {shown(labels)}"
        )


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


def mask(labels: Labels, bits: Mapping[tuple[str, str], int]) -> int:
    """The bits of those labels that have one."""
    found = 0
    for label in labels:
        found |= bits.get(label, 0)
    return found


def bits_for(required: Iterable[Labels]) -> dict[tuple[str, str], int]:
    """A bit for each required label. Raises ClusterError for more of them than there are bits."""
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


def why_none_suits(
    required: Labels, machines: Sequence[Labels], one: str = "node", several: str = "nodes"
) -> str | None:
    """Why no machine suits a job: the label that none has, and those that they have instead; null: some machine does.

    one, several: what the machines are called.
    """
    if any(suits(labels, required) for labels in machines):
        return None
    known = set[tuple[str, str]]().union(*machines)
    lacking = tuple(label for label in required if label not in known)
    if not lacking:
        return f"no {one} has {' and '.join(as_texts(required))} at once"
    keys = {key for key, _ in lacking}
    instead = sorted(f"{key}={value}" for key, value in known if key in keys)
    values = ", ".join(instead[:MOST_NAMED]) + (", ..." if len(instead) > MOST_NAMED else "")
    have = f"{several} have {values}" if instead else f"none has a label {' or '.join(sorted(keys))}"
    return f"no {one} has {' or '.join(as_texts(lacking))}; {have}"
