"""The table `[ec2]` of a cluster file, and what each of the file's offers means there.

::

    [ec2]
    region = "eu-central-1"
    image = "ami-0123456789abcdef0"    # with Ray and Betimes; or resolve:ssm:NAME of a parameter
    subnets = { eu-central-1a = "subnet-1", eu-central-1b = "subnet-2" }  # by zone, tried in this order
    security_groups = ["sg-1"]         # that let the machines and Ray's head reach each other
    instance_profile = "jobs"          # whose permissions jobs have; none by default
    setup = "pip install ..."          # lines of a shell, before Ray is started; none by default
    alone_s = 1800                     # a machine that no service reaches for so long ends itself
    launches_per_min = 20              # the most

An offer's `type` is EC2's, perhaps with an ending after `_`: `m5.large_spot`. An offer with `spot` is of the spot
market. One with the label `zone` is of that zone alone. A machine costs what AWS bills: seconds from the request on,
and a minute at least.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from betimes.cluster import Cluster
from betimes.cluster.checks import file_text
from betimes.cluster.offer import Offer
from betimes.cluster.readers.any_format import cluster_path
from betimes.cluster.readers.toml import document
from betimes.errors import ClusterError
from betimes.service.executors.ray.agent import LEASE
from betimes.service.executors.ray.connection import MACHINE, SERVICE
from betimes.service.machines.machine import Machine
from betimes.service.spec.spec_errors import faults_of

Market = Literal["on-demand", "spot"]
_TYPE = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+(_[A-Za-z0-9-]+)?")
MOST_TYPE_CHARACTERS = 50  # a machine's name is a label in Ray


class Ec2Settings(BaseModel):
    """The table `[ec2]`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    region: str
    image: str
    subnets: Annotated[dict[str, str], Field(min_length=1)]
    security_groups: Annotated[list[str], Field(min_length=1)]
    instance_profile: str | None = None
    setup: str = ""
    alone_s: Annotated[float, Field(ge=60)] = 1800.0
    launches_per_min: Annotated[int, Field(ge=1)] = 20


@dataclass(frozen=True)
class Pool:
    """A source of machines of a type, which has some or has none."""

    type: str  # EC2's
    zone: str
    market: Market

    def __str__(self) -> str:
        return f"{self.type} in {self.zone} ({self.market})"


def read_ec2(name: str, cluster: Cluster) -> tuple[Ec2Settings, Cluster]:
    """A cluster file's table `[ec2]`, and its cluster with AWS's billing.

    Raises ClusterError, naming file and field.
    """
    path = cluster_path(name)
    found = document(file_text(path), path)
    if "ec2" not in found:
        raise ClusterError(
            f"{path}, field ec2: missing; --fleet ec2 needs a table [ec2] with region, image, subnets and "
            "security_groups"
        )
    try:
        settings = Ec2Settings.model_validate(found["ec2"])
    except ValidationError as error:
        first = faults_of(error.errors(include_url=False), Ec2Settings, "table [ec2]")[0]
        raise ClusterError(f"{path}, field ec2.{first.field}: {first.text}") from None
    for number, offer in enumerate(cluster.offers, 1):
        try:
            _check(offer, settings)
        except ClusterError as error:
            raise ClusterError(f"{path}, [[offers]] table {number}, {error}") from None
    billed = (replace(each, min_bill_s=60.0, bill_step_s=1.0, bill_from="request") for each in cluster.offers)
    return settings, replace(cluster, offers=tuple(billed))


def _check(offer: Offer, settings: Ec2Settings) -> None:
    if not _TYPE.fullmatch(offer.type) or len(offer.type) > MOST_TYPE_CHARACTERS:
        raise ClusterError(
            f"field type: {offer.type} is no type of EC2, which may have an ending after _, as in m5.large_spot"
        )
    zone = dict(offer.labels).get("zone")
    if zone is not None and zone not in settings.subnets:
        raise ClusterError(f"field labels: zone {zone} has no subnet in the table [ec2]")
    if offer.spot is not None and zone is None and len(settings.subnets) > 1:
        raise ClusterError(
            'field labels: a spot price is that of a zone; give the offer one (labels = { zone = "..." }), or name one '
            "subnet in the table [ec2]"
        )


def pools_of(offer: Offer, settings: Ec2Settings) -> list[Pool]:
    """The sources of an offer's machines, in the order in which they are tried."""
    zone = dict(offer.labels).get("zone")
    zones = list(settings.subnets) if zone is None else [zone]
    market: Market = "on-demand" if offer.spot is None else "spot"
    return [Pool(offer.type.partition("_")[0], each, market) for each in zones]


def launch_of(
    settings: Ec2Settings, pool: Pool, service: str, machine: Machine, user_data: str
) -> dict[str, Any]:
    """The arguments of RunInstances for a machine, the same each time: a repeated call rents nothing twice."""
    token = sha256(" ".join((service, machine.name, pool.type, pool.zone, pool.market)).encode()).hexdigest()
    tags = [
        {"Key": SERVICE, "Value": service},
        {"Key": MACHINE, "Value": machine.name},
        {"Key": "Name", "Value": f"betimes {machine.name}"},
    ]
    found: dict[str, Any] = {
        "ImageId": settings.image,
        "InstanceType": pool.type,
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": token,
        "SubnetId": settings.subnets[pool.zone],
        "SecurityGroupIds": settings.security_groups,
        "UserData": user_data,
        "InstanceInitiatedShutdownBehavior": "terminate",
        "MetadataOptions": {"HttpTokens": "required"},
        "TagSpecifications": [{"ResourceType": each, "Tags": tags} for each in ("instance", "volume")],
    }
    if settings.instance_profile is not None:
        key = "Arn" if settings.instance_profile.startswith("arn:") else "Name"
        found["IamInstanceProfile"] = {key: settings.instance_profile}
    if pool.market == "spot":
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        found["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
    return found


_SCRIPT = """\
#!/bin/bash
# Joins this machine to a service's Ray cluster. Its last word, whatever happens, ends the machine.
trap 'shutdown -h now' EXIT
export HOME="${{HOME:-/root}}" {lease}=$(mktemp)
(
  left={looks} seen=
  while [ "$left" -gt 0 ]; do # a service that reaches this machine renews the file
    at=$(stat -c %Y "${lease}")
    if [ "$at" = "$seen" ]; then left=$((left - 1)); else left={looks} seen=$at; fi
    sleep 5
  done
  shutdown -h now
) &
set -e
{setup}
ray start --address={address} --labels={labels} --disable-usage-stats --block
"""


def user_data_of(settings: Ec2Settings, fleet: str, address: str, name: str) -> str:
    """The start script of a machine. fleet: the mark of the service's machines in Ray; address: of Ray's head."""
    return _SCRIPT.format(
        lease=LEASE,
        looks=round(settings.alone_s / 5),
        setup=settings.setup.strip(),
        address=shlex.quote(address),
        labels=shlex.quote(f"{SERVICE}={fleet},{MACHINE}={name}"),
    )
