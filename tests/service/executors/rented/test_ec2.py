"""EC2 on a bad day: no capacity, lost answers, machines that nobody sees yet. Nothing is rented twice or left."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from betimes.errors import ClusterError
from betimes.service.executors.rented import ec2
from betimes.service.executors.rented.ec2_file import read_ec2, user_data_of
from betimes.service.machines.cloud_file import read_offers
from betimes.service.machines.machine import Machine
from betimes.service.machines.provider import Booted, Failed, PriceChanged, ReclaimNotice, RequestId
from tests.docs.pages import BLOCK, text_of
from tests.service.executors.rented.clouds import CLUSTER, EC2, Ec2Stage
from tests.service.executors.rented.fake_ec2 import refusal


@pytest.fixture
def stage(tmp_path: Path) -> Ec2Stage:
    return Ec2Stage(tmp_path)


def refused_text(stage: Ec2Stage, type: str = "big") -> str:  # noqa: A002
    stage.ask(type)
    return stage.heard(Failed).text


# --- launches ---


def test_what_a_launch_asks_for(stage: Ec2Stage) -> None:
    stage.rent()
    stage.rent("big")
    small, big = stage.ec2.launches
    assert small["InstanceMarketOptions"]["MarketType"] == "spot"
    assert (small["InstanceType"], small["SubnetId"], small["MaxCount"]) == ("small", "subnet-a", 1)
    assert small["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert len(small["ClientToken"]) <= 64
    assert small["ClientToken"] != big["ClientToken"]
    tags = {tag["Key"]: tag["Value"] for tag in small["TagSpecifications"][0]["Tags"]}
    assert tags["betimes-machine"] == "small-0"
    assert tags["betimes-service"].startswith("betimes-")
    assert "InstanceMarketOptions" not in big


def test_each_zone_is_tried_once_and_its_refusal_remembered(stage: Ec2Stage) -> None:
    stage.ec2.free["big", "a", "on-demand"] = 0
    stage.rent("big")
    stage.rent("big")
    zones = [each["SubnetId"] for each in stage.ec2.launches]
    assert zones == ["subnet-a", "subnet-b", "subnet-b"]
    stage.now_s += ec2.REFUSED_S
    stage.ec2.free["big", "a", "on-demand"] = 1
    stage.rent("big")
    assert stage.ec2.launches[-1]["SubnetId"] == "subnet-a"


def test_the_reason_lists_what_was_tried(stage: Ec2Stage) -> None:
    stage.ec2.free |= {("big", "a", "on-demand"): 0, ("big", "b", "on-demand"): 0}
    text = refused_text(stage)
    assert "big in a (on-demand): InsufficientInstanceCapacity" in text
    assert "big in b (on-demand)" in text
    assert stage.running() == set()
    assert stage.provider.cost_usd(stage.now_s) == 0.0


def test_a_quota_is_named_as_one(stage: Ec2Stage) -> None:
    stage.ec2.errors["run_instances"] = [refusal("VcpuLimitExceeded"), refusal("VcpuLimitExceeded")]
    request = stage.ask("big")
    assert isinstance(request, RequestId)
    failed = stage.heard(Failed)
    assert (failed.why, "ask AWS for more" in failed.text) == ("quota", True)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("InvalidAMIID.NotFound", "look at [ec2] image"),
        ("UnauthorizedOperation", "`betimes fleet doctor` prints the policy"),
        ("IdempotentParameterMismatch", "was asked for before"),
        ("InvalidSubnetID.NotFound", "does not accept the table [ec2]"),
    ],
)
def test_other_refusals_are_not_tried_elsewhere(stage: Ec2Stage, code: str, words: str) -> None:
    stage.ec2.errors["run_instances"] = [refusal(code)]
    assert words in refused_text(stage)
    assert len(stage.ec2.launches) == 1


def test_a_lost_answer_is_asked_for_again_and_nothing_is_rented_twice(stage: Ec2Stage) -> None:
    stage.ec2.lost["run_instances"] = 2
    stage.ec2.errors["run_instances"] = [refusal("RequestLimitExceeded")]
    stage.rent("big")
    stage.heard(Booted)
    assert len(stage.ec2.launches) == 4
    assert len(stage.ec2.instances) == 1


def test_a_machine_whose_answer_never_came_is_given_back_once_it_is_seen(stage: Ec2Stage) -> None:
    stage.ec2.lost["run_instances"] = ec2.TRIES
    stage.ec2.seen_late_s = 60.0
    assert "it is not known whether" in refused_text(stage)
    assert stage.running() == {"big-0"}
    stage.until(lambda: not stage.running())


def test_an_empty_answer_that_was_one_all_the_same_leaves_one_machine(stage: Ec2Stage) -> None:
    stage.ec2.empty = 1
    stage.rent("big")
    stage.heard(Booted)
    assert len(stage.ec2.instances) == 2
    stage.until(lambda: stage.ec2.names() == ["big-0"])
    assert stage.ec2.instance("big-0")["pool"][1] == "b", "the one that was reported"


def test_a_machine_that_is_seen_late_is_not_lost(stage: Ec2Stage) -> None:
    stage.ec2.seen_late_s = 90.0
    stage.rent("big")
    stage.heard(Booted)
    assert stage.events == []
    assert len(stage.ec2.instances) == 1


def test_a_machine_that_is_given_back_before_it_is_seen_goes(stage: Ec2Stage) -> None:
    stage.ec2.seen_late_s = 60.0
    stage.rent("big")
    stage.provider.release(stage.now_s, "big-0")
    stage.until(lambda: not stage.running())
    stage.until(lambda: stage.provider.going() == 0)


def test_a_machine_that_is_seen_to_have_ended_is_not_ended_again(stage: Ec2Stage) -> None:
    stage.rent("big")
    stage.ec2.lost["terminate_instances"] = 1
    stage.provider.release(stage.now_s, "big-0")
    stage.until(lambda: stage.provider.going() == 0)
    assert stage.ec2.terminations == ["i-0"]


def test_launches_are_paced() -> None:
    now_s = [0.0]
    pace = ec2._Pace(2, lambda: now_s[0])
    assert [pace.turn_s() for _ in range(4)] == [0.0, 0.0, 30.0, 60.0]
    now_s[0] = 180.0
    assert [pace.turn_s() for _ in range(3)] == [0.0, 0.0, 30.0]


def test_a_price_that_the_log_does_not_know_is_told(stage: Ec2Stage) -> None:
    stage.set_price(7.2)
    (machine,) = stage.rent()
    assert machine.usd_per_h == 7.2, "it was seen while the machine was asked for"
    stage.set_price(3.6)  # the offer's own, while the service is down
    stage.begin_again(machine, made=1)
    assert stage.heard(PriceChanged).usd_per_h == 3.6


def test_a_machine_reports_its_notice_itself(stage: Ec2Stage) -> None:
    stage.rent("big")
    stage.heard(Booted)
    stage.nodes.notices["big-0"] = 0.0
    assert stage.heard(ReclaimNotice).node == "big-0"


# --- the property ---

STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(["small", "big"]), st.integers(1, 2)),
    st.tuples(st.just("release"), st.integers(0, 5)),
    st.tuples(st.just("step"), st.integers(1, 30)),
    st.tuples(st.just("crash"), st.booleans()),
    st.tuples(st.just("take"), st.integers(0, 5)),
    st.tuples(st.just("lose"), st.sampled_from(["run_instances", "terminate_instances"]), st.integers(1, 6)),
    st.tuples(
        st.just("refuse"), st.sampled_from(["RequestLimitExceeded", "InternalError", "VcpuLimitExceeded"])
    ),
    st.tuples(st.just("pool"), st.sampled_from([0, 1, 5])),
    st.tuples(st.just("empty"), st.integers(0, 1)),
    st.tuples(st.just("late"), st.sampled_from([0.0, 40.0])),
    st.tuples(st.just("down"), st.booleans()),
)


class Life:
    """A service with a log of its machines, and what happens to it."""

    def __init__(self, folder: Path) -> None:
        self.stage = Ec2Stage(folder)
        self.held: dict[str, tuple[Machine, float]] = {}  # as in the log
        self.made = dict[str, int]()

    def do(self, what: str, *how: Any) -> None:
        stage = self.stage
        names = sorted(self.held)
        match what, *how:
            case "ask", type_, count:
                stage.ask(type_, count)  # a service that is killed now has not logged it
            case "release", number if names:
                name = names[number % len(names)]
                del self.held[name]
                stage.provider.release(stage.now_s, name)
            case "step", times:
                for _ in range(times):
                    stage.step()
                    self.log()
            case "crash", is_logged:
                if is_logged:
                    self.log()
                stage.provider = stage.open(CLUSTER, list(self.held.values()), self.made)
            case "take", number if stage.ec2.running():
                running = stage.ec2.running()
                stage.ec2.end(running[number % len(running)]["InstanceId"])
            case "lose", call, times:
                stage.ec2.lost[call] = times
            case "refuse", code:
                stage.ec2.errors["run_instances"] = [refusal(code)]
            case "pool", free:
                stage.ec2.free["big", "a", "on-demand"] = free
            case "empty", times:
                stage.ec2.empty = times
            case "late", late_s:
                stage.ec2.seen_late_s = late_s
            case "down", is_down:
                stage.ec2.is_down = is_down

    def log(self) -> None:
        """Note the machines that there are, as the scheduler does."""
        provider, now_s = self.stage.provider, self.stage.now_s
        there = {each.name: each for each in (*provider.machines(), *provider.booting())}
        self.held = {name: self.held.get(name, (each, now_s)) for name, each in there.items()}
        for each in there.values():
            self.made[each.type] = max(self.made.get(each.type, 0), int(each.name.rpartition("-")[2]) + 1)

    def settle(self) -> None:
        """All is well from now on."""
        ec2_ = self.stage.ec2
        ec2_.is_down, ec2_.empty, ec2_.seen_late_s = False, 0, 0.0
        ec2_.lost.clear()
        ec2_.errors.clear()
        for _ in range(100):
            self.stage.step()
        self.log()


@settings(max_examples=30, deadline=None)
@given(steps=st.lists(STEPS, max_size=25))
def test_whatever_happens_exactly_the_wanted_machines_run(
    steps: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    life = Life(tmp_path_factory.mktemp("life"))
    for step in steps:
        life.do(*step)
    life.settle()
    assert life.stage.ec2.names() == sorted(life.held)
    assert sorted(each.name for each in life.stage.provider.machines()) == sorted(life.held)
    assert life.stage.provider.going() == 0


@settings(max_examples=20, deadline=None)
@given(steps=st.lists(STEPS.filter(lambda step: step[0] not in ("crash", "empty", "late")), max_size=25))
@example(steps=[("down", True), ("ask", "small", 1)])  # no answer, and no machine either
def test_the_bill_is_the_providers(
    steps: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    life = Life(tmp_path_factory.mktemp("life"))
    for step in steps:
        life.do(*step)
    life.settle()
    ec2_, provider, now_s = life.stage.ec2, life.stage.provider, life.stage.now_s
    expected = ec2_.bill_usd({"small": 3.6, "big": 7.2})
    assert provider.cost_usd(now_s) == pytest.approx(expected, abs=0.005)


# --- the table [ec2], and the start script ---

FILE = """
[ec2]
region = "eu-central-1"
image = "ami-1"
subnets = {{ a = "subnet-a", b = "subnet-b" }}
security_groups = ["sg-1"]
{more}
[[offers]]
type = "{type}"
cpu = 2
memory_gib = 8
usd_per_h = 0.1
{offer}
"""


def read(folder: Path, more: str = "", type: str = "m5.large", offer: str = "") -> Any:  # noqa: A002
    path = folder / "aws.toml"
    path.write_text(FILE.format(more=more, type=type, offer=offer))
    return read_ec2(str(path), read_offers(path))


def test_a_cluster_file_for_ec2(tmp_path: Path) -> None:
    found, cluster = read(
        tmp_path, "alone_s = 600.0", "m5.large_spot", 'spot = true\nlabels = { zone = "b" }'
    )
    (offer,) = cluster.offers
    assert [str(pool) for pool in ec2.pools_of(offer, found)] == ["m5.large in b (spot)"]
    assert (offer.min_bill_s, offer.bill_step_s, offer.bill_from) == (60.0, 1.0, "request")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"more": "zone = 1"}, r"field ec2\.zone: unknown field"),
        ({"more": "alone_s = 5.0"}, r"field ec2\.alone_s: 5 is too small; give 60 or more"),
        ({"type": "large"}, r"\[\[offers\]\] table 1, field type: large is no type of EC2"),
        ({"offer": 'labels = { zone = "c" }'}, "zone c has no subnet"),
        ({"offer": "spot = true"}, "a spot price is that of a zone"),
    ],
)
def test_what_the_file_has_wrong_is_named(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    with pytest.raises(ClusterError, match=rf"aws\.toml, .*{words}"):
        read(tmp_path, **changes)


def test_the_file_of_the_documentation(tmp_path: Path) -> None:
    (block,) = [
        each for each in BLOCK.finditer(text_of("docs/how-to/rent-from-aws.md")) if each["file"] == "aws.toml"
    ]
    (tmp_path / "aws.toml").write_text(block["body"])
    found, cluster = read_ec2(str(tmp_path / "aws.toml"), read_offers(tmp_path / "aws.toml"))
    pools = [str(pool) for offer in cluster.offers for pool in ec2.pools_of(offer, found)]
    assert pools == [
        "m5.large in eu-central-1a (on-demand)",
        "m5.large in eu-central-1b (on-demand)",
        "m5.large in eu-central-1a (spot)",
    ]


def test_a_file_without_the_table(tmp_path: Path) -> None:
    path = tmp_path / "aws.toml"
    path.write_text(FILE.format(more="", type="m5.large", offer="").replace("[ec2]", "[elsewhere]"))
    with pytest.raises(ClusterError, match="unknown"):
        read_offers(path)
    path.write_text(path.read_text().partition("[[offers]]")[1] + path.read_text().partition("[[offers]]")[2])
    with pytest.raises(ClusterError, match=r"field ec2: missing; --fleet ec2 needs"):
        read_ec2(str(path), read_offers(path))


@pytest.mark.parametrize("setup", ["true", "false"])
def test_the_last_word_of_the_start_script_ends_the_machine(tmp_path: Path, setup: str) -> None:
    (tmp_path / "ray").write_text(f'#!/bin/sh\necho ray "$@" >> {tmp_path}/said\n')
    (tmp_path / "ray").chmod(0o755)
    # A function of the shell goes before any program of that name: nothing here may end this machine.
    environ = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "BASH_FUNC_shutdown%%": f'() {{ echo shutdown "$@" >> {tmp_path}/said; }}',
    }
    script = user_data_of(replace_setup(setup), "betimes-1", "10.0.0.1:6379", "m5.large-0")
    process = subprocess.Popen(["bash", "-c", script], env=environ, start_new_session=True)
    process.wait(60)
    os.killpg(process.pid, signal.SIGKILL)
    said = (tmp_path / "said").read_text().splitlines()
    started = (
        "ray start --address=10.0.0.1:6379 --labels=betimes-service=betimes-1,betimes-machine=m5.large-0"
    )
    assert any(line.startswith(started) for line in said) == (setup == "true")
    assert said[-1] == "shutdown -h now"


def replace_setup(setup: str) -> Any:
    return EC2.model_copy(update={"setup": setup, "alone_s": 60.0})
