"""Scripts that rent: what they print is checked, and machines that nobody asked for are given back."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from betimes.cluster import Cluster
from betimes.errors import CloudError, InputError, ServiceError
from betimes.service.executors.ray.joining import RentedNodes
from betimes.service.executors.rented import scripts
from betimes.service.executors.rented.remote_cloud import LATE_S, Rented, open_remote
from betimes.service.executors.rented.scripts import (
    ListingElsewhere,
    ListingHere,
    ScriptCall,
    Scripts,
    check_scripts,
)
from betimes.service.executors.supervision import processes
from betimes.service.machines.cloud_file import read_offers
from betimes.service.machines.provider import Booted, CloudEvent, Failed, Provider, Reclaimed, RequestId
from tests.docs.pages import BLOCK, text_of
from tests.service.executors.rented.clouds import CLUSTER, CommandStage
from tests.service.machines.kinds import kind


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[CommandStage]:
    found = CommandStage(tmp_path)
    yield found
    found.close()


def call(folder: Path, name: str, text: str) -> ScriptCall[Any]:
    script = folder / name
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    model = ListingHere if name == "list" else Rented
    called = ScriptCall(script, {"service": "betimes-1"}, model)
    while not called.is_over:
        time.sleep(0.01)
    return called


def test_what_a_script_reads_and_prints(tmp_path: Path) -> None:
    machine = '{"name": "small-0", "state": "up", "pid": 7, "usd_per_h": 1}'
    found = call(
        tmp_path, "list", f"""grep -q '"service": "betimes-1"' && echo '{{"machines": [{machine}]}}'"""
    )
    (one,) = found.result().machines
    assert (one.name, one.state, one.pid, one.usd_per_h, one.notice_s) == ("small-0", "up", 7, 1.0, None)
    assert call(tmp_path, "rent", "echo '{}'").result().refused is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("list", "echo ready", "/list printed 'ready', where one JSON object is expected: is no JSON"),
        (
            "list",
            "true",
            "/list printed '', where one JSON object is expected: expected a table of names and values",
        ),
        (
            "list",
            """echo '{"machines": [{"name": "a", "state": "UP"}]}'""",
            "field machines[0].state: 'UP' is not known; give 'booting' or 'up'",
        ),
        (
            "list",
            """echo '{"machines": [{"name": "a", "state": "up"}]}'""",
            "a machine that is up needs a pid",
        ),
        (
            "rent",
            """echo '{"refused": "money"}'""",
            "field refused: 'money' is not known; give 'capacity' or 'quota'",
        ),
        (
            "rent",
            "echo first >&2; echo no credentials >&2; exit 3",
            "/rent failed with exit status 3: no credentials",
        ),
        ("rent", "sleep 60", "/rent was ended, as it took longer than 0.2 s"),
    ],
)
def test_anything_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    monkeypatch.setitem(scripts.LIMITS_S, name, 0.2 if "sleep" in text else 60.0)
    with pytest.raises(CloudError) as raised:
        call(tmp_path, name, text).result()
    assert said in str(raised.value)


def test_all_three_scripts_have_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"--fleet command:.*: there is no rent; it needs rent, release and list"
    ):
        check_scripts(tmp_path)
    (tmp_path / "rent").touch()
    with pytest.raises(InputError, match=r"rent cannot be executed \(chmod \+x .*/rent\)"):
        check_scripts(tmp_path)


def test_a_cloud_that_refuses_is_not_asked_again_at_once(stage: CommandStage) -> None:
    (stage.folder / "dear").touch()
    stage.ask("small", 2)
    failed = stage.heard(Failed)
    assert (failed.node, failed.why, failed.text) == (None, "capacity", "none left")
    (stage.folder / "dear").unlink()
    again = stage.ask("small", 1)
    assert getattr(again, "text", None) == "none left"
    stage.rent("big")


def test_a_script_that_fails_is_named_and_what_it_may_have_rented_goes_back(stage: CommandStage) -> None:
    stage.break_down()
    stage.ask("small")
    assert "rent failed with exit status 1: no route to the cloud" in stage.heard(Failed).text
    stage.work_again()
    assert stage.running() == set()


def test_a_machine_that_nobody_has_asked_for_is_given_back(stage: CommandStage) -> None:
    stage.rent()
    service = next(stage.folder.glob("betimes-*"))
    stray = json.loads((service / "small-0").read_text()) | {"name": "stray-9"}
    (service / "stray-9").write_text(json.dumps(stray))
    stage.until(lambda: not (service / "stray-9").exists())


def test_a_machine_that_the_list_shows_late_or_not_for_a_while_is_there(stage: CommandStage) -> None:
    stage.show(nothing=True)
    stage.rent()
    looked_s = stage.now_s
    stage.until(lambda: stage.now_s > looked_s + 0.8 * LATE_S)
    assert [machine.name for machine in stage.provider.booting()] == ["small-0"]
    stage.show(nothing=False)
    stage.heard(Booted)
    stage.show(nothing=True)
    looked_s = stage.now_s
    stage.until(lambda: stage.now_s > looked_s + 0.8 * LATE_S)
    assert (stage.events, stage.running()) == ([], {"small-0"})
    stage.show(nothing=False)
    looked_s = stage.now_s
    stage.until(lambda: stage.now_s > looked_s + 0.4 * LATE_S)
    assert (stage.events, len(stage.provider.machines())) == ([], 1)


def test_a_machine_that_no_list_shows_is_gone_in_the_end(stage: CommandStage) -> None:
    stage.show(nothing=True)
    stage.rent()
    assert stage.heard(Failed).text == "small-0 did not boot: no list shows it"
    stage.until(lambda: not stage.running())
    stage.show(nothing=False)
    stage.rent()
    stage.heard(Booted)
    stage.show(nothing=True)
    assert stage.heard(Reclaimed).node == "small-1"


def save_the_documentations(folder: Path) -> None:
    (folder / "desks").mkdir()
    for block in BLOCK.finditer(text_of("docs/how-to/rent-by-script.md")):
        if block["file"]:
            (folder / block["file"]).write_text(block["body"])
            (folder / block["file"]).chmod(0o755)


def looked_after(cloud: Provider) -> tuple[list[CloudEvent], Callable[[Callable[[], bool]], None]]:
    """What a cloud reports, and a wait for something that looks after its machines meanwhile."""
    events: list[CloudEvent] = []

    def until(holds: Callable[[], bool]) -> None:
        for tick in range(600):
            if holds():
                return
            time.sleep(0.1)
            cloud.poll()
            events.extend(cloud.advance(float(tick)))
        raise AssertionError(events)

    return events, until


def test_the_scripts_of_the_documentation_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    save_the_documentations(tmp_path)
    cloud = open_remote(Scripts(tmp_path), read_offers(tmp_path / "offers.toml"), tmp_path, look_s=0.1)(
        (), {}
    )
    events, until = looked_after(cloud)

    assert isinstance(cloud.request(0.0, "small", 2), RequestId)
    until(lambda: len(cloud.machines()) == 2)
    pids = [cloud.process_of(machine.name) for machine in cloud.machines()]
    for name in ("small-0", "small-1"):
        cloud.release(1000.0, name)
    until(lambda: not any(pid is not None and processes.lives(pid, None) for pid in pids))
    assert [type(event) for event in events] == [Booted, Booted]


def test_a_copied_journal_is_of_another_service(stage: CommandStage, tmp_path: Path) -> None:
    stage.rent()
    journal = stage.folder / "command.json"
    found = json.loads(journal.read_text())
    journal.write_text(json.dumps(found | {"place": "/elsewhere"}))
    other = stage.open(CLUSTER, [], {})
    for _ in range(5):
        time.sleep(0.1)
        other.poll()
        other.advance(2000.0)
    assert stage.running() == {"small-0"}
    journal.write_text("{")
    with pytest.raises(ServiceError, match=r"command\.json is damaged"):
        stage.open(CLUSTER, [], {})


def test_machines_elsewhere_join_the_cluster_by_the_documentations_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ssh` comes back to this machine here, and `ray` only stays; who has joined is said by hand."""
    save_the_documentations(tmp_path)
    for name, text in {
        "ssh": """for word; do :; done; exec sh -c "$word\"""",
        "ray": "exec sleep 60",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    nodes = RentedNodes(f"betimes-{os.getpid()}", "10.0.0.5:6379")
    cluster = Cluster("desks", (), offers=(kind("anna", 8, 32, capacity=1),))
    cloud = open_remote(Scripts(tmp_path / "desks", nodes), cluster, tmp_path, nodes.names, look_s=0.1)(
        (), {}
    )
    events, until = looked_after(cloud)

    def seen() -> bool:
        """Whether Ray has been started with the labels."""
        started = f"[l]abels=betimes-service={nodes.service},betimes-machine=anna-0 "
        return (
            subprocess.run(["pgrep", "-f", started], stdout=subprocess.DEVNULL, check=False).returncode == 0
        )

    request = cloud.request(0.0, "anna", 1)
    assert isinstance(request, RequestId)
    until(lambda: seen() and cloud.given_out(request) is not None)
    (machine,) = cloud.booting()
    assert (machine.name, machine.kind, cloud.machines()) == ("anna-0", "cloud", [])
    nodes.names.add("anna-0")
    until(lambda: cloud.machines() == [machine])
    cloud.release(1000.0, "anna-0")
    until(lambda: not seen() and cloud.going() == 0)
    assert [type(event) for event in events] == [Booted]


def test_a_machine_elsewhere_has_no_process_here() -> None:
    with pytest.raises(ValueError, match="joins the cluster of --ray has no pid here; leave it out"):
        ListingElsewhere.model_validate({"machines": [{"name": "anna-0", "state": "up", "pid": 7}]})
