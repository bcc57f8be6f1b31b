"""What every cloud has to keep: nothing is rented twice, nothing is left running, whatever happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from betimes.errors import CloudError, Unknown
from betimes.service.machines.provider import (
    Booted,
    Failed,
    NoCapacity,
    PriceChanged,
    Reclaimed,
    ReclaimNotice,
    RequestId,
)
from tests.service.executors.rented.clouds import (
    BIG,
    CLUSTER,
    SMALL,
    CommandStage,
    Ec2Stage,
    LocalStage,
    Stage,
    failing,
)

STAGES: dict[str, type[Stage]] = {
    "made-up": Stage,
    "local": LocalStage,
    "command": CommandStage,
    "ec2": Ec2Stage,
}


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    found = STAGES[request.param](tmp_path)
    yield found
    found.close()


def refused(stage: Stage, type: str, count: int) -> tuple[str, str]:  # noqa: A002
    """Why so many are not to be had, at once or a while later."""
    answer = stage.ask(type, count)
    if isinstance(answer, RequestId):
        answer = stage.heard(Failed)
        assert answer.node is None
    assert isinstance(answer, NoCapacity | Failed)
    return answer.why, answer.text


def test_a_machine_boots_is_charged_for_and_is_given_back(stage: Stage) -> None:
    (machine,) = stage.rent()
    assert (machine.name, machine.type, machine.cpu, machine.usd_per_h) == ("small-0", "small", 1.0, 3.6)
    assert machine.kind == stage.provider.kind
    assert stage.heard(Booted).machine.name == "small-0"
    assert [each.name for each in stage.provider.machines()] == ["small-0"]
    since_s = stage.now_s
    stage.step()
    assert stage.running() == {"small-0"}
    assert stage.provider.cost_usd(stage.now_s) >= (stage.now_s - since_s) * 3.6 / 3600
    stage.provider.release(stage.now_s, "small-0")
    stage.provider.release(stage.now_s, "small-0")
    stage.until(lambda: not stage.running())
    assert (stage.provider.machines(), stage.provider.booting()) == ([], [])

    def costs_no_more() -> bool:
        before_usd = stage.provider.cost_usd(stage.now_s)
        stage.step()
        return stage.provider.cost_usd(stage.now_s) == before_usd

    stage.until(costs_no_more)


def test_more_than_there_are_is_refused_whole(stage: Stage) -> None:
    why, text = refused(stage, "small", 4)
    assert why == "capacity"
    assert "4 small" in text
    assert stage.running() == set()
    stage.rent("small", 3)
    why, _ = refused(stage, "big", 2)
    assert why == "quota"
    assert stage.running() == {"small-0", "small-1", "small-2"}
    with pytest.raises(Unknown):
        stage.ask("huge")


def test_a_machine_that_never_comes_up_is_gone(stage: Stage) -> None:
    stage.provider = stage.open(replace(CLUSTER, offers=(failing(SMALL), BIG)), [], {})
    stage.rent()
    failed = stage.heard(Failed)
    assert (failed.node, failed.why) == ("small-0", "boot")
    stage.until(lambda: not stage.running())
    assert stage.provider.booting() == []


def test_a_machine_that_ends_while_it_boots_has_failed(stage: Stage) -> None:
    stage.boot_slowly()
    stage.rent()
    stage.take("small-0")
    assert (stage.heard(Failed).node, stage.running()) == ("small-0", set())


def test_a_machine_is_taken_away_with_notice(stage: Stage) -> None:
    stage.rent()
    stage.heard(Booted)
    stage.take_with_notice("small-0")
    assert stage.heard(ReclaimNotice).node == "small-0"
    stage.end_of_notice("small-0")
    assert stage.heard(Reclaimed).node == "small-0"
    stage.until(lambda: not stage.running())


def test_a_machine_is_taken_away_without_notice(stage: Stage) -> None:
    stage.rent("small", 2)
    stage.heard(Booted)
    stage.heard(Booted)
    stage.take("small-1")
    assert stage.heard(Reclaimed).node == "small-1"
    assert stage.running() == {"small-0"}
    stage.provider.release(stage.now_s, "small-1")  # nothing happens


def test_prices_change(stage: Stage) -> None:
    stage.rent()
    stage.heard(Booted)
    stage.set_price(7.2)
    changed = stage.heard(PriceChanged)
    assert (changed.type, changed.usd_per_h) == ("small", 7.2)
    assert stage.provider.prices()["small"] == 7.2


def test_a_release_that_fails_is_carried_out_once_it_can_be(stage: Stage) -> None:
    stage.rent()
    stage.heard(Booted)
    stage.break_down()
    try:
        stage.provider.release(stage.now_s, "small-0")
        asked_again = False
    except CloudError:  # the service then asks again
        asked_again = True
    stage.step()
    assert stage.running() == {"small-0"}
    stage.work_again()
    if asked_again:
        stage.provider.release(stage.now_s, "small-0")
    stage.until(lambda: not stage.running())


def test_a_service_killed_before_its_request_is_logged_leaves_nothing_running(stage: Stage) -> None:
    stage.ask("small", 2)
    stage.begin_again(made=0)
    stage.until(lambda: not stage.running())
    (machine,) = stage.rent()
    stage.heard(Booted)
    # A call to rent may have outlived the service.
    stage.until(lambda: stage.running() == {machine.name})


def test_a_service_that_starts_again_goes_on_with_its_machines(stage: Stage) -> None:
    (machine,) = stage.rent()
    stage.heard(Booted)
    stage.begin_again(machine, made=1)
    assert stage.heard(Booted).machine.name == "small-0"
    (other,) = stage.rent()
    assert other.name == "small-1", "no name is used twice"
    stage.heard(Booted)
    assert stage.running() == {"small-0", "small-1"}
    stage.provider.release(stage.now_s, "small-0")
    stage.provider.release(stage.now_s, "small-1")
    stage.until(lambda: not stage.running())
