"""Fits of intervals, and promises, that fail: said once, and tried again at the next occasion, not at once."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from betimes.core.nodes.wait_predictor import Predictor, no_predictor
from betimes.foresight import intervals
from betimes.service.runtime import promises
from betimes.service.runtime.controller import Controller
from betimes.service.scheduling.promises import PromiseErrors
from betimes.testing import InMemoryService


def missing(*_: Any) -> None:
    raise ModuleNotFoundError("No module named 'sklearn'")


def unusable(*_: Any) -> tuple[Predictor, ...]:
    """No trees, and no weights: compiled code would read what lies beyond them."""
    return (Predictor(**no_predictor()),) * 3


def without_numbers(rows: list[Any], _: float) -> tuple[Predictor, ...]:
    features = len(rows[0][0])
    seen = np.repeat([[-np.inf], [np.inf]], features, axis=1)
    whole = {**no_predictor(), "seen": seen, "weights": np.full(1 + features, np.nan)}
    return (Predictor(**whole),) * 3


@pytest.mark.parametrize("fit", [missing, unusable, without_numbers])
def test_a_fit_that_fails_is_one_line_and_is_tried_again_when_the_next_is_due(
    fit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(intervals, "FIRST", 4)  # and again after 6
    monkeypatch.setattr(promises, "fit", fit)
    with InMemoryService() as service:
        for _ in range(8):
            service.submit(command=["x"], estimate_s=100.0)
            service.finish()
        service.quote(command=["x"], estimate_s=100.0)
    said = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert [one.exc_info for one in said] == [None, None]
    for one, count in zip(said, (4, 6), strict=True):
        assert f"not fitted anew after {count} finished jobs" in one.getMessage()
        assert "\n" not in one.getMessage()


def test_a_promise_that_voids_its_turn_again_and_again_is_not_tried_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is tried again after an event, and the state is read back from the log each time."""
    read_back = list[float]()
    recover = Controller.recover

    def counted(self: Controller) -> bool:
        read_back.append(self.clock.now_s())
        return recover(self)

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    with InMemoryService() as service:
        late = service.submit(command=["x"], estimate_s=100.0, hold=True).job_id  # has no promise yet
        service.advance(10.0)
        monkeypatch.setattr(Controller, "recover", counted)
        with monkeypatch.context() as failing:
            failing.setattr(PromiseErrors, "around", broken)
            service.release(late)
            more = [service.submit(command=["x"], hold=True).job_id for _ in range(3)]  # each is an event
            service.advance(50.0)
            assert read_back == [10.0, 10.0]  # it was tried again once
        service.cancel(more)
        service.finish()
        assert service.job(late).job.finished_at == 110.0
        service.submit(command=["y"], estimate_s=1.0)
        service.finish()
