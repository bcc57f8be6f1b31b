"""The calls to AWS by boto3 over HTTP, as moto's server takes them; and the doctor, which makes the same ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from betimes.cluster import Cluster
from betimes.cluster.offer import Offer, Spot
from betimes.errors import InputError
from betimes.service.executors.ray.joining import RentedNodes
from betimes.service.executors.rented import ec2
from betimes.service.executors.rented.ec2 import Ec2, open_client
from betimes.service.executors.rented.ec2_doctor import Doctor, policy_of
from betimes.service.executors.rented.ec2_file import Ec2Settings
from betimes.service.executors.rented.remote_cloud import Call, Rented
from betimes.service.machines.machine import Machine
from tests.service.executors.rented.fake_ec2 import refusal
from tests.service.executors.rented.instances import aws_account

pytestmark = pytest.mark.slow  # boto3 and moto take seconds to load
REGION = "eu-central-1"
ON_DEMAND = Offer(type="m5.large", cpu=2, memory_gib=8, usd_per_h=0.115)
SPOT = Offer(
    type="m5.large_spot",
    cpu=2,
    memory_gib=8,
    usd_per_h=0.115,
    spot=Spot(),
    labels=(("zone", "eu-central-1a"),),
)
CLUSTER = Cluster("aws", (), offers=(ON_DEMAND, SPOT))


@pytest.fixture(scope="module")
def account() -> Iterator[Ec2Settings]:
    with aws_account(REGION) as (settings, _):
        yield settings


def answer(call: Call[Any]) -> Any:
    while not call.is_over:
        time.sleep(0.01)
    return call.result()


def test_rent_list_and_release(account: Ec2Settings) -> None:
    backend = Ec2(account, CLUSTER.offers, RentedNodes("betimes-1", "10.0.0.1:6379"))
    for offer in CLUSTER.offers:
        machine = Machine(f"{offer.type}-0", "cloud", offer.type, *offer.amounts)
        assert answer(backend.rent("betimes-2", machine)) == Rented()
    listing = answer(backend.list("betimes-2"))
    assert [(each.name, each.state) for each in listing.machines] == [
        ("m5.large-0", "up"),
        ("m5.large_spot-0", "up"),
    ]
    assert set(listing.usd_per_h) == {"m5.large_spot"}
    assert answer(backend.list("betimes-3")).machines == []
    (found,) = open_client(REGION, "ec2").describe_instances(
        Filters=[{"Name": "tag:betimes-machine", "Values": ["m5.large_spot-0"]}]
    )["Reservations"]
    assert found["Instances"][0]["InstanceLifecycle"] == "spot"
    began_s = time.time() - 60
    for each in listing.machines:
        answer(backend.release("betimes-2", each.name))
    answer(backend.release("betimes-2", "m5.large-9"))
    listing = answer(backend.list("betimes-2"))
    assert listing.machines == []
    assert [each.name for each in listing.ended] == ["m5.large-0", "m5.large_spot-0"]
    assert all(began_s < each.at_s < began_s + 120 for each in listing.ended)


class Prices:
    """AWS's price list, which moto does not have."""

    def __init__(self, usd: float | None) -> None:
        self.usd = usd

    def get_products(self, **_: Any) -> dict[str, Any]:
        if self.usd is None:
            return {"PriceList": []}
        price = {"priceDimensions": {"a": {"pricePerUnit": {"USD": str(self.usd)}}}}
        return {"PriceList": [json.dumps({"terms": {"OnDemand": {"b": price}}})]}


class Quotas:
    """AWS's Service Quotas, which moto does not have. vcpus: null: the credentials may not look."""

    def __init__(self, vcpus: float | None) -> None:
        self.vcpus = vcpus

    def get_service_quota(self, **_: Any) -> dict[str, Any]:
        if self.vcpus is None:
            raise refusal("AccessDeniedException", "GetServiceQuota")
        return {"Quota": {"Value": self.vcpus}}


def examined(
    settings: Ec2Settings, *offers: Offer, usd: float | None = 0.115, vcpus: float | None = 32.0
) -> dict[str, str]:
    """The findings; those that are wrong begin with WRONG."""

    def client(region: str, name: str) -> Any:
        made = {"pricing": Prices(usd), "service-quotas": Quotas(vcpus)}
        return made[name] if name in made else open_client(region, name)

    found = Doctor(settings, Cluster("aws", (), offers=offers or CLUSTER.offers), client).examine()
    return {
        f"{each.node or ''} {each.check}".strip(): each.text if each.ok else f"WRONG: {each.text}"
        for each in found
    }


def test_an_account_that_is_as_it_should_be(account: Ec2Settings) -> None:
    found = examined(account)
    assert not [text for text in found.values() if text.startswith("WRONG")]
    assert found["m5.large type"] == "2 vCPUs, 8 GiB, 0 GPUs"
    assert found["m5.large price"] == "$0.115 an hour, as in AWS's price list"
    assert found["m5.large rent"] == "would be rented (tried with DryRun)"
    assert found["m5.large quota"] == "32 vCPUs: 16 machines"


def test_a_quota_that_cannot_be_read_is_not_well(account: Ec2Settings) -> None:
    text = examined(account, ON_DEMAND, vcpus=None)["m5.large quota"]
    assert text.startswith(
        "WRONG: not known: the credentials are missing, too old, or do not allow it; renew them"
    )
    assert text.endswith("or look at L-1216C47A in Service Quotas")


@pytest.mark.parametrize(
    ("settings", "offer", "check", "words"),
    [
        ({"image": "ami-0123456789abcdef0"}, {}, "image", "look at [ec2] image"),
        (
            {"subnets": {"eu-central-1a": "subnet-0123456789abcdef0"}},
            {},
            "network",
            "does not accept the table",
        ),
        ({}, {"type": "m99.large"}, "m99.large type", "eu-central-1 has no m99.large; leave the offer out"),
        ({}, {"cpu": 4}, "m5.large type", "jobs would not fit"),
        ({}, {"usd_per_h": 0.09}, "m5.large price", "the file is out of date: $0.09 an hour, and $0.115"),
        ({}, {"usd_per_h": 0.09}, "m5.large price", "; write usd_per_h = 0.115"),
    ],
)
def test_what_is_wrong_is_found_before_anything_is_rented(
    account: Ec2Settings, settings: dict[str, Any], offer: dict[str, Any], check: str, words: str
) -> None:
    wanted: dict[str, Any] = {"type": "m5.large", "cpu": 2, "memory_gib": 8, "usd_per_h": 0.115}
    text = examined(account.model_copy(update=settings), Offer(**wanted | offer))[check]
    assert text.startswith("WRONG")
    assert words in text


def test_the_policy_has_what_the_settings_need(account: Ec2Settings) -> None:
    settings = account.model_copy(update={"instance_profile": "jobs", "image": "resolve:ssm:/betimes"})
    full = {each["Sid"] for each in policy_of(settings, CLUSTER)["Statement"]}
    least = {each["Sid"] for each in policy_of(account, Cluster("aws", (), offers=(ON_DEMAND,)))["Statement"]}
    assert full - least == {"Profile", "Image", "Spot"}
    assert least == {"Look", "Rent", "Tag", "Release"}


def test_without_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(ec2, "import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'betimes\[aws\]'"):
        open_client(REGION, "ec2")
