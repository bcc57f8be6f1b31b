"""What makes a compiled function another one, and what does not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from betimes.kernels.fingerprint import fingerprint

SOURCE = '''
import math
import beside
from beside import LIMIT

def callee(x):
    """Twice."""
    return 2 * x + LIMIT

def function(x, most=3):
    total = math.inf
    for k in range(most):
        total = min(total, callee(x) + beside.OFFSET)
    return total
'''
BESIDE = "LIMIT = 5\nOFFSET = 1.5\nUNUSED = 7\n"


def of(source: str = SOURCE, beside: str = BESIDE) -> str:
    sys.modules["beside"] = module = ModuleType("beside")
    try:
        exec(beside, vars(module))
        made = ModuleType("made")
        exec(compile(source, "made.py", "exec"), vars(made))
        return fingerprint(made.function)
    finally:
        del sys.modules["beside"]


def test_it_is_the_same_every_time() -> None:
    assert of() == of()


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace("Twice.", "Two times."),
        lambda text: "# a comment\n\n\n" + text,
        lambda text: text.replace("total = math.inf", "total = math.inf  # none yet"),
        lambda text: text + "\ndef other(x):\n    return x\n",
    ],
    ids=["docstring", "moved", "comment", "another function"],
)
def test_what_changes_no_code_changes_nothing(edit: Callable[[str], str]) -> None:
    assert of(edit(SOURCE)) == of()
    assert of(beside=BESIDE.replace("7", "8")) == of()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * x", "3 * x"),
        ("most=3", "most=4"),
        ("min(", "max("),
        ("math.inf", "math.pi"),
        ("2 * x", "2.0 * x"),
    ],
)
def test_what_changes_the_code_does(old: str, new: str) -> None:
    assert of(SOURCE.replace(old, new)) != of()


@pytest.mark.parametrize(
    ("old", "new"), [("LIMIT = 5", "LIMIT = 6"), ("1.5", "2.5"), ("LIMIT = 5", "LIMIT = 5.0")]
)
def test_constants_of_another_module_count(old: str, new: str) -> None:
    assert of(beside=BESIDE.replace(old, new)) != of()


def test_what_a_closure_holds_counts() -> None:
    def adding(amount: float) -> Callable[[float], float]:
        return lambda x: x + amount

    assert fingerprint(adding(1.0)) == fingerprint(adding(1.0))
    assert fingerprint(adding(1.0)) != fingerprint(adding(2.0))
