"""One search at a time beside the service, whose front is kept, chosen from, and said in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from betimes.errors import BetimesError, Conflict, InputError, PolicyError, Refused
from betimes.service.views.models import TuneSpec
from tests.service.tuning.fronts import front, policy
from tests.service.tuning.living import House

SPEC = TuneSpec(evaluations=30, jobs=10)


def play(house: House, test: Callable[[House], Awaitable[None]]) -> None:
    async def main() -> None:
        async with house.open():
            await test(house)

    asyncio.run(main())


def test_a_search_is_followed_to_its_front(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.submit(10.0, 20.0, 30.0)
        begun = (await house.backend.tune(SPEC, "ann")).search
        assert begun is not None
        assert (begun.doing, begun.of, begun.reason.text) == ("starting", 30, "asked for by ann")
        await house.until(lambda: bool(house.searches.orders))
        progress = {"doing": "searching", "done": 7, "of": 30, "front": 2, "hypervolume": 0.5}
        house.searches.told(progress)
        search = (await house.backend.tuning()).search
        assert search is not None
        assert (search.doing, search.done, search.front, search.hypervolume) == ("searching", 7, 2, 0.5)
        await house.found()
        view = await house.backend.tuning()
        assert (view.search, view.problem, view.front) == (None, None, front())
        assert view.in_force is not None
        assert (view.in_force.policy, view.in_force.test) == ("fifo", {"jct:avg": 200.0, "pred_err:avg": 0.0})

    house = House(tmp_path)
    play(house, test)
    began, ended = house.told("tuning", "tuned")
    assert (began.cause, began.data["jobs"], began.data["objectives"]) == ("user:ann", 3, SPEC.objectives)
    assert (ended.cause, ended.data["points"]) == (f"event:{began.event_id}", 3)
    (order,) = house.searches.orders
    assert order.recent.workload.job_id.tolist() == [1, 2, 3]
    assert (order.cluster.units, order.spec, order.baselines[0]) == (4, SPEC, "fifo")
    assert order.baselines.count("fifo") == 1


@pytest.mark.parametrize(("jobs", "noted"), [(3, True), (99, True), (100, False)])
def test_few_jobs_are_a_note(tmp_path: Path, jobs: int, noted: bool) -> None:
    async def test(house: House) -> None:
        with house.clock.hold():
            await house.submit(*(10.0 + at for at in range(jobs)), hold=True)
            begun = (await house.backend.tune(TuneSpec(evaluations=30, jobs=1000), "ann")).search
            assert begun is not None
            assert (begun.note or "").startswith(f"only {jobs} jobs") is noted
        await house.found()

    play(House(tmp_path), test)


def test_points_are_put_in_force_by_number_and_by_name_and_the_log_says_so(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.submit(10.0, 20.0)
        with pytest.raises(PolicyError, match="front:1: there is no front yet; `betimes tune --live`"):
            await house.backend.set_policy("front:1", "ann")
        await house.backend.tune(SPEC, "ann")
        await house.found()
        assert (await house.backend.set_policy("front:2", "ann")).policy == policy(2)
        assert (await house.backend.set_policy("front:pcs-jct", "ann")).policy == policy(0)
        in_force = (await house.backend.tuning()).in_force
        assert in_force is not None
        assert in_force.test == {"jct:avg": 100.0, "pred_err:avg": 0.5}
        for wrong in ("front:3", "front:-1", "front:", "front:PCS"):
            with pytest.raises(
                PolicyError, match="number from 0 to 2, or one of PCS-JCT, PCS-balanced, PCS-pred"
            ):
                await house.backend.set_policy(wrong, "ann")
        await house.backend.set_policy("srsf", "ann")
        assert (await house.backend.tuning()).in_force is None  # it was not tried

    house = House(tmp_path)
    play(house, test)
    (tuned,) = house.told("tuned")
    said = [event.data.get("front") for event in house.told("policy-set")]
    assert said == [
        None,
        {"point": 2, "names": ["PCS-pred"], "event": tuned.event_id},
        {"point": 0, "names": ["PCS-JCT"], "event": tuned.event_id},
        None,
    ]


def test_the_front_survives_a_restart_and_a_damaged_file_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def tune(house: House) -> None:
        await house.submit(10.0, 20.0)
        await house.backend.tune(SPEC, "ann")
        await house.found()

    async def choose(house: House) -> None:
        assert (await house.backend.tuning()).front == front()
        await house.backend.set_policy("front:PCS-pred", "ann")

    async def damaged(house: House) -> None:
        assert (await house.backend.tuning()).front is None
        assert (await house.backend.policy()).policy == policy(2)

    house = House(tmp_path)
    play(house, tune)
    play(house, choose)
    (tmp_path / "tuning.json").write_text("{}")
    play(house, damaged)
    assert "not a front of this version of Betimes" in caplog.text


def test_another_search_takes_the_place_of_the_first(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.submit(10.0, 20.0)
        await house.backend.tune(SPEC, "ann")
        await house.until(lambda: len(house.searches.orders) == 1)
        await house.backend.tune(SPEC.model_copy(update={"seed": 5}), "eve")
        assert house.searches.cancelled == 1
        await house.until(lambda: len(house.searches.orders) == 2)
        await house.found()

    house = House(tmp_path)
    play(house, test)
    first, given_up, second, tuned = house.told("tuning", "not-tuned", "tuned")
    assert (given_up.kind, given_up.cause) == ("not-tuned", f"event:{first.event_id}")
    assert given_up.data["problem"] == "another search has taken its place"
    assert (second.cause, tuned.cause) == ("user:eve", f"event:{second.event_id}")


def test_a_search_is_stopped_on_demand_and_with_the_service(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        with pytest.raises(Conflict, match="no search is going on"):
            await house.backend.stop_tuning("ada")
        await house.submit(10.0, 20.0)
        await house.backend.tune(SPEC, "ann")
        await house.until(lambda: bool(house.searches.orders))
        assert not house.searches.stop.is_set()
        search = (await house.backend.stop_tuning("ada")).search
        assert search is not None
        assert search.stopping
        assert house.searches.stop.is_set()
        await house.backend.stop_tuning("ada")  # once more does no harm
        await house.found()
        await house.backend.tune(SPEC, "ann")
        await house.until(lambda: len(house.searches.orders) == 2)

    house = House(tmp_path)
    play(house, test)
    assert house.searches.cancelled == 1
    assert [event.cause for event in house.told("tuning-stopped")] == ["user:ada"] * 2


def test_a_search_that_fails_leaves_the_front_before_and_says_why(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.submit(10.0, 20.0)
        await house.backend.tune(SPEC, "ann")
        await house.found()
        await house.backend.tune(SPEC, "ann")
        await house.until(lambda: len(house.searches.orders) == 2)
        house.searches.ends.set_exception(InputError("too short for one evaluation"))
        await house.until(lambda: house.tuner.going is None)
        view = await house.backend.tuning()
        assert (view.problem, view.front) == ("too short for one evaluation", front())
        await house.backend.tune(SPEC, "ann")
        assert (await house.backend.tuning()).problem is None

    house = House(tmp_path)
    play(house, test)
    assert house.told("not-tuned")[0].data["problem"] == "too short for one evaluation"


@pytest.mark.parametrize(
    ("work_s", "changes", "kind", "part"),
    [
        ((), {}, Conflict, "no job has been submitted so far, and this needs at least two"),
        ((10.0,), {}, Conflict, "only one job has been submitted so far"),
        (
            (10.0, 10.0, 10.0, 20.0),
            {},
            Conflict,
            r"the 2 jobs to search on, 1 to 2, are all of one size \(10 s on one unit\).*--sizes true",
        ),
        ((10.0, 20.0), {"objectives": ["jct:mean"]}, Refused, "objectives: .*there is no measure 'mean'"),
        ((10.0, 20.0), {"objectives": ["jct"]}, Refused, "objectives: .*write METRIC:MEASURE"),
    ],
)
def test_what_cannot_be_tuned_is_refused(
    tmp_path: Path, work_s: tuple[float, ...], changes: dict, kind: type[BetimesError], part: str
) -> None:
    async def test(house: House) -> None:
        await house.submit(*work_s)
        with pytest.raises(kind, match=part) as refused:
            await house.backend.tune(SPEC.model_copy(update=changes), "ann")
        assert "\n" not in str(refused.value)

    house = House(tmp_path)
    play(house, test)
    assert (house.told("tuning"), house.searches.orders) == ([], [])


def test_a_policy_on_nodes_is_in_the_way(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.submit(10.0, 20.0)
        with pytest.raises(Conflict, match=r"nodes:fifo, is for nodes.*`betimes policy set pool:fifo`"):
            await house.backend.tune(SPEC, "ann")

    play(House(tmp_path, policy="nodes:fifo"), test)


def test_no_node_that_takes_work_is_in_the_way(tmp_path: Path) -> None:
    async def test(house: House) -> None:
        await house.submit(10.0, 20.0)
        await house.backend.drain("n", "ann")
        with pytest.raises(Conflict, match="no node is up"):
            await house.backend.tune(SPEC, "ann")

    play(House(tmp_path), test)
