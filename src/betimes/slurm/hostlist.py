"""Slurm's lists of nodes: `gpu[1-2,07],b` as names, and names as such a list."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from betimes.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_NAMES = 1_000_000  # where Slurm takes no more than 65,536 in a range


def hostnames(text: str) -> list[str]:
    """`gpu[1-2,07],b` as gpu1, gpu2, gpu07, b. Raises InputError."""
    found = list(islice(_hostnames(text), MOST_NAMES + 1))
    if len(found) > MOST_NAMES:
        raise InputError(f"{text[:40]}: names more than {MOST_NAMES:,} nodes; write a smaller range")
    return found


def _hostnames(text: str) -> Iterator[str]:
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", text):
        before, bracket, rest = part.partition("[")
        if not bracket:
            yield part
            continue
        inner, closing, after = rest.partition("]")
        for span in inner.split(","):
            match = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", span)
            if match is None or not closing or int(match[2] or match[1]) < int(match[1]):
                raise InputError(f"Invalid hostlist: {text[:60]}")
            for number in range(int(match[1]), int(match[2] or match[1]) + 1):
                yield from _hostnames(f"{before}{number:0{len(match[1])}}{after}")


def as_list(names: Sequence[str]) -> str:
    """Names side by side that differ in the number at their end alone, as one with the numbers in brackets."""
    groups: list[
        tuple[str, int, list[int]]
    ] = []  # what stands before the number, its digits, and the numbers
    for name in names:
        match = re.fullmatch(r"(.*?)(\d{1,18})", name)
        before, digits = (match[1], match[2]) if match is not None else (name, "")
        width = len(digits) if digits.startswith("0") else 0
        is_like = groups and digits and groups[-1][2] and groups[-1][0] == before
        if is_like and groups[-1][1] in (width, len(digits)):
            groups[-1][2].append(int(digits))
        else:
            groups.append((before, width, [int(digits)] if digits else []))
    return ",".join(before + _numbers(width, numbers) for before, width, numbers in groups)


def _numbers(width: int, numbers: Sequence[int]) -> str:
    """`[1-3,5]`; of one number that alone."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    text = ",".join("-".join(f"{each:0{width}}" for each in span) for span in spans)
    return f"[{text}]" if len(numbers) > 1 else text
