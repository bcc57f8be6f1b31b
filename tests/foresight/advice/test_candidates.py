"""The policies that fit: by the jobs, by what is owned, and by what can be rented."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from betimes import Workload
from betimes.cluster import Cluster, NodeGroup, Offer
from betimes.foresight.advice import candidates
from betimes.foresight.advice.shown import command
from betimes.service.engines.named_policies import check_live, kind_of

OFFERS = (
    Offer(type="small", gpu=1.0, cpu=4.0, memory_gib=16.0, usd_per_h=0.5),
    Offer(type="other.big", gpu=0.0, cpu=8.0, memory_gib=32.0, usd_per_h=1.0),
)
OWNED = Cluster("owned", (NodeGroup("node", 4, 0.0, 8.0, 32.0),))
BOTH = replace(OWNED, offers=OFFERS)
RENTED = Cluster("rented", (), offers=OFFERS)


def jobs(**columns: Any) -> Workload:
    return Workload.from_columns(
        **{"submit_s": [0.0, 1.0], "work_s": 60.0, "max_units": 2, "min_units": 2, **columns}
    )


def names(workload: Workload, cluster: Cluster | None) -> set[str]:
    return {
        policy.removeprefix("nodes:").partition(":")[0] for policy in candidates(workload, cluster).policies
    }


def test_rigid_jobs_on_owned_machines_are_queued() -> None:
    found = names(jobs(), OWNED)
    assert {"fifo", "easy", "conservative", "sjf", "portfolio"} <= found
    assert not {"srsf", "fitgpp", "njw", "eva", "odb", "wfq"} & found


@pytest.mark.parametrize(
    ("columns", "cluster", "fitting"),
    [
        ({"min_units": 1}, None, {"srsf", "afs", "max-min"}),
        ({"qos": [1, 0]}, OWNED, {"fitgpp", "youngest"}),
        ({"priority": [1, 0]}, OWNED, {"lowest-priority"}),
        ({}, BOTH, {"njw", "compound", "odb", "eva", "wfq"}),
        ({}, RENTED, {"odb", "eva"}),
    ],
)
def test_others_fit_where_jobs_or_machines_are_for_them(
    columns: dict[str, Any], cluster: Cluster | None, fitting: set[str]
) -> None:
    assert fitting <= names(jobs(**columns), cluster)


def test_nothing_queues_where_nothing_is_owned() -> None:
    assert not {"easy", "njw", "portfolio", "srsf"} & names(jobs(min_units=1), RENTED)


def test_labels_keep_out_what_does_not_heed_them() -> None:
    found = names(jobs(min_units=1, require=["zone=a", ""]), BOTH)
    assert not {"srsf", "eva", "wfq"} & found
    assert {"easy", "odb"} <= found


def test_each_policy_is_tried_or_left_out_with_a_reason() -> None:
    seen = set[str]()
    for workload in (jobs(), jobs(min_units=1, qos=[1, 0], priority=[1, 0])):
        for cluster in (None, OWNED, BOTH, RENTED):
            found = candidates(workload, cluster)
            left_out = [policy for group in found.left_out for policy in group.policies]
            assert not {*found.policies} & {*left_out}
            seen |= {frozenset((*found.policies, *left_out))}
            assert all(group.why for group in found.left_out)
    assert len(seen) == 1, "on other machines other policies are spoken of"


def test_each_can_be_put_in_force_as_the_command_says() -> None:
    workload = jobs(min_units=1, qos=[1, 0], priority=[1, 0])
    for policy in candidates(workload, BOTH).policies:
        *_, typed = shlex.split(command(policy, live=True))
        kind_of(typed)
        check_live(typed, OFFERS)
    assert command("sjf:backfill=easy", live=False, cluster="my lab.toml") == (
        "betimes up --cluster 'my lab.toml' --policy sjf:backfill=easy"
    )


def test_policies_that_are_added_come_first_and_once() -> None:
    found = candidates(jobs(), OWNED, ("mine.py:newest", "easy")).policies
    assert found[:2] == ("mine.py:newest", "easy")
    assert found.count("easy") == 1


def test_a_policy_in_force_is_not_left_out() -> None:
    found = candidates(jobs(), OWNED, ("srsf",))
    assert found.policies[0] == "srsf"
    assert all("srsf" not in group.policies for group in found.left_out)
    assert any("las" in group.policies for group in found.left_out)
