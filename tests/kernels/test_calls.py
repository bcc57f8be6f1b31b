"""Kernels, entries and what Python may call."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from numba import types
from numba.core.event import Listener, install_listener

from betimes.kernels import INTERPRETED, Records, entry, kernel, struct_types
from betimes.kernels.cache import KernelCache
from tests.kernels.shapes import Item, first_and_second, put, rule_of, scaled, shelf, weigh

pytestmark = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")


def test_a_kernel_is_an_error_to_python_with_its_name() -> None:
    with pytest.raises(TypeError, match=r"kernel tests\.kernels\.shapes\.weigh is called by other kernels"):
        weigh(shelf().items, 0)


def test_an_entry_of_a_kernel_can_be_called() -> None:
    s, called = shelf(), entry(weigh)
    assert not called.is_loaded
    put(s, 0, 2.5, 2)
    assert called(s.items, 0) == 5.0
    assert called.is_loaded
    assert called.load()(s.items, 1) == 0.0


def test_a_number_in_the_source_is_no_type_of_its_own() -> None:
    kernel: Any = weigh
    items = struct_types.type_of(Records[Item])
    for number in (0, 1):
        kernel.get_call_template((items, types.literal(number)), {})
    assert len(kernel.signatures) == 1
    assert first_and_second(shelf()) == 0.0


class Collecting(Listener):
    """Whether garbage is collected when a function begins to be compiled."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def on_start(self, event: object) -> None:
        self.seen.append(gc.isenabled())

    def on_end(self, event: object) -> None:
        pass


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_waits_until_a_kernel_is_compiled(collects: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    @kernel
    def count_of(items: Records[Item], at: int) -> int:
        return items[at].count

    monkeypatch.setattr(KernelCache, "load_overload", lambda *_: None)  # it is compiled in any case
    was_on, listener = gc.isenabled(), Collecting()
    (gc.enable if collects else gc.disable)()
    try:
        with install_listener("numba:compile", listener):
            assert entry(count_of)(shelf().items, 0) == 0
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was_on else gc.disable)()
    assert listener.seen
    assert not any(listener.seen)


def test_wrong_arguments_are_errors_and_no_crash() -> None:
    with pytest.raises(AttributeError, match="address"):
        put(None, 0, 1.0, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="expected a Shelf, found another struct"):
        put(rule_of(scaled), 0, 1.0, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="first"):
        put(shelf(), "first", 1.0, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        put(shelf(), 0)  # pyright: ignore[reportCallIssue]
