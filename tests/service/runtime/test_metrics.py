"""The metrics of a running service, who may read them, and the dashboard that shows them."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from betimes.client import AsyncClient
from betimes.errors import InputError, StoreLocked, Unavailable
from betimes.service.machines.machine import Machine
from betimes.service.runtime.clock import VirtualClock
from betimes.service.runtime.metrics import Metrics
from betimes.service.scheduling.events import Event
from betimes.service.spec.job_spec import JobSpec
from betimes.service.startup.bootstrap import running
from betimes.service.startup.config import ServiceConfig, read_settings
from betimes.service.startup.in_memory import Assembly, assembled
from betimes.service.store.batch import Batch
from betimes.service.views.models import NodeSpec
from tests.service.compiling.by_hand import before_listening
from tests.service.serving import PATIENCE_S

OWN = Machine("own-0", "virtual", "own", 1.0, 8.0, 0.0)
CLOUD = '[[types]]\ntype = "big"\ncpu = 4\nmemory_gib = 16\nusd_per_h = 2\ncapacity = 2\nboot_s = 0.1\n'
DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana.json"


def samples(text: bytes) -> dict[str, float]:
    """The value of each series, by name and labels."""
    return {
        each.name + "".join(f"[{value}]" for _, value in sorted(each.labels.items())): each.value
        for family in text_string_to_metric_families(text.decode())
        for each in family.samples
    }


async def read(url: str, token: str | None = None) -> httpx.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient() as client:
        return await client.get(f"{url}/metrics", headers=headers)


def test_jobs_nodes_promises_and_money_of_a_service(tmp_path: Path) -> None:
    file = tmp_path / "cloud.toml"
    file.write_text(CLOUD)
    config = ServiceConfig(
        state=tmp_path / "state", machines=[OWN], cloud=str(file), kernels=before_listening()
    )

    async def main() -> None:
        async with running(config) as service, AsyncClient(service.url, service.token) as client:
            env = {"VIRTUAL_WORK_S": "0.2"}
            first = await client.submit(command=["x"], estimate_s=3600, env=env)
            assert (await client.wait(first.job_id, PATIENCE_S)).status == "finished"
            await client.submit(command=["x"], estimate_s=3600, env={"VIRTUAL_WORK_S": "3600"})
            await client.submit(command=["x"], estimate_s=3600)
            await client.add_nodes(NodeSpec(kind="fake-cloud", type="big"))
            answer = await read(service.url, service.token)
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            found = samples(answer.content)
            assert found["betimes_submissions_total"] == 3
            assert found["betimes_quotes_total"] >= 3
            assert found["betimes_jobs_over_total[finished]"] == 1
            assert found["betimes_promise_error_ratio_count"] == 1
            assert 0.9 < found["betimes_promise_error_ratio_sum"] < 1.1  # done in a moment, not in an hour
            assert sum(found[f"betimes_jobs[{each}]"] for each in ("queued", "running")) == 2
            assert found["betimes_nodes[up]"] + found["betimes_nodes[booting]"] == 2
            assert found["betimes_rent_usd_per_hour"] == 2
            assert (found["betimes_ready"], found["betimes_database_errors_total[StoreFull]"]) == (1, 0)
            async with httpx.AsyncClient() as probe:
                for path in ("healthz", "readyz"):
                    head = await probe.head(f"{service.url}/{path}")
                    assert (head.status_code, head.content) == (200, b"")
            assert found["betimes_event_log_position"] >= 10
            # All commits but that of what a new service begins with belong to turns.
            assert found["betimes_turn_seconds_count"] >= found["betimes_commit_seconds_count"] - 1 > 0
            assert not [name for name in found if name.endswith("_created")]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("setting", "without_token", "with_token"), [("token", 401, 200), ("local", 200, 200), ("off", 401, 404)]
)
def test_who_may_read_them(tmp_path: Path, setting: Any, without_token: int, with_token: int) -> None:
    config = ServiceConfig(state=tmp_path, machines=[OWN], metrics=setting, kernels=before_listening())

    async def main() -> None:
        async with running(config) as service:
            assert (await read(service.url)).status_code == without_token
            assert (await read(service.url, service.token)).status_code == with_token
            assert (await read(service.url, "wrong")).status_code == (200 if setting == "local" else 401)

    asyncio.run(main())


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(InputError, match="--metrics: give token, local or off"):
        read_settings({"metrics": "public"}, environ={})


def in_memory(folder: Path) -> Any:
    return assembled([OWN], "fifo", folder, clock=VirtualClock(0.0, 1.0))


def test_promises_with_an_interval_are_counted_by_where_the_end_fell(tmp_path: Path) -> None:
    def events(job: int, interval: dict[str, float], finished_s: float) -> list[Event]:
        quote = {"made_at": 0.0, "finish_at": 100.0, **interval}
        later = {"made_at": 50.0, "finish_at": 500.0}  # the first promise counts
        return [
            Event(1, 0.0, "quoted", "policy", job, data={"quote": quote}),
            Event(2, 50.0, "quoted", "policy", job, data={"quote": later}),
            Event(3, finished_s, "finished", "executor", job),
        ]

    async def main() -> None:
        service: Assembly
        async with in_memory(tmp_path) as service:
            metrics = Metrics(service.controller)
            between = {"finish_low_at": 80.0, "finish_high_at": 130.0}
            for job, finished_s in enumerate((70.0, 80.0, 110.0, 131.0)):
                metrics.heed(events(job, between, finished_s))
            metrics.heed(events(9, {}, 150.0))
            found = samples(await metrics.text())
            outcomes = [
                found[f"betimes_promises_settled_total[{each}]"] for each in ("early", "kept", "late")
            ]
            assert outcomes == [1, 2, 1]
            assert found["betimes_promise_error_ratio_count"] == 5
            assert found["betimes_promise_error_ratio_sum"] == pytest.approx(0.3 + 0.2 + 0.1 + 0.31 + 0.5)

    asyncio.run(main())


def test_errors_of_the_database_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        service: Assembly
        async with in_memory(tmp_path) as service:
            metrics = Metrics(service.controller)
            await service.backend.submit([JobSpec(command=["x"])], "ann")
            store, fails = service.store, [True]

            def commit(batch: Batch, whole: Any = store.commit) -> None:
                if fails:
                    fails.pop()
                    raise StoreLocked("locked for too long")
                whole(batch)

            monkeypatch.setattr(store, "commit", commit)
            with pytest.raises(Unavailable, match="locked for too long"):
                await service.backend.submit([JobSpec(command=["x"])], "ann")
            assert samples(await metrics.text())["betimes_database_errors_total[StoreLocked]"] == 1

    asyncio.run(main())


def test_every_query_of_the_dashboard_names_a_metric_that_exists(tmp_path: Path) -> None:
    async def main() -> set[str]:
        async with in_memory(tmp_path) as service:
            return {
                f"{family.name}_total" if family.type == "counter" else family.name
                for family in Metrics(service.controller).registry.collect()
            }

    known = asyncio.run(main())
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    asked = {re.sub("_bucket$", "", name) for query in queries for name in re.findall(r"betimes_\w+", query)}
    assert asked == known
    rules = DASHBOARD.with_name("alerts.yml").read_text()
    assert set(re.findall(r"betimes_\w+", rules)) <= known
    boxes = [tuple(panel["gridPos"].values()) for panel in panels]
    assert len(set(boxes)) == len(boxes)
