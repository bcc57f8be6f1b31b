"""Weighted choices written as text: `1@0.7+2@0.2+8@0.1`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from betimes.errors import InputError
from betimes.workload.speedup import bind


@dataclass(frozen=True)
class Mix:
    """Choices and their weights (which are normalised to sum 1)."""

    choices: tuple[str, ...]
    weights: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Mix:
        """`choice@weight` joined by `+`; a choice alone has weight 1."""
        choices: list[str] = []
        weights: list[float] = []
        for part in text.split("+"):
            choice, at, number = part.strip().rpartition("@")
            if not at:
                choice, number = number, "1"
            try:
                weight = float(number)
            except ValueError:
                weight = math.nan
            if not choice or not (math.isfinite(weight) and weight >= 0):
                raise InputError(
                    f"expected choices with weights such as 1@0.7+2@0.3, got {part!r} in {text!r}"
                )
            choices.append(choice)
            weights.append(weight)
        if len(set(choices)) != len(choices):
            raise InputError(f"expected every choice once, got {text!r}")
        total = sum(weights)
        if total <= 0:
            raise InputError(f"expected weights that sum to more than 0, got {text!r}")
        return cls(tuple(choices), tuple(weight / total for weight in weights))

    def sample(self, rng: np.random.Generator, n: int) -> NDArray[np.int64]:
        """Indices into `choices`."""
        return rng.choice(len(self.choices), size=n, p=self.weights).astype(np.int64)

    def whole_numbers(self) -> NDArray[np.int64]:
        """The choices as numbers of units."""
        for choice in self.choices:
            if not (choice.isascii() and choice.isdigit() and 1 <= int(choice) <= 1_000_000):
                raise InputError(f"expected numbers of units from 1 such as 1@0.7+8@0.3, got {choice!r}")
        return np.array([int(choice) for choice in self.choices], dtype=np.int64)

    def formulas(self) -> tuple[str, ...]:
        """The choices as speed-up formulas; anything else is refused."""
        unknown = bind(self.choices, 1)[1]
        if unknown:
            raise InputError(
                f"expected speed-up curves such as linear@0.5+amdahl:0.05@0.5, got {unknown[0]!r}"
            )
        return self.choices
