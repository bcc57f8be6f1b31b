"""Checks of an account of AWS before anything is rented there, and the policy that its credentials need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from betimes.cluster import Cluster
from betimes.cluster.offer import Offer
from betimes.service.executors.ray.connection import SERVICE
from betimes.service.executors.ray.doctor import Finding
from betimes.service.executors.rented.ec2 import TROUBLES, AwsError, asked, open_client, spot_price
from betimes.service.executors.rented.ec2_file import Ec2Settings, launch_of, pools_of
from betimes.service.machines.machine import Machine

PRICES_IN = "us-east-1"  # of all regions
OFF_FRAC = 0.01  # by more a price is out of date
# vCPUs of running machines, on demand and spot, by the first letters of their types.
_QUOTAS = {
    "standard": ("L-1216C47A", "L-34B43A08"),
    "g": ("L-DB2E81BA", "L-3819A6DF"),
    "vt": ("L-DB2E81BA", "L-3819A6DF"),
    "p": ("L-417A185B", "L-7212CCBC"),
    "x": ("L-7295265B", "L-E3A00192"),
    "inf": ("L-1945791B", "L-B5D1601B"),
    "trn": ("L-2C3B7624", "L-6B0D517C"),
}

_REMEDIES = {kind: advice for kind, (advice, _) in TROUBLES.items()} | {
    "capacity": "there are none now; try again later, or add a zone to [ec2] subnets",
    "throttled": "AWS asks for fewer calls; run this again in a minute",
    "permission": "the credentials are missing, too old, or do not allow it; renew them, or give them the policy of "
    "`betimes fleet doctor --policy`",
    "gone": "that is not there any more; run this again",
    "invalid": "AWS does not accept the table [ec2]; correct what it names",
    "unknown": "AWS did not answer this check; run it again, and look whether this machine reaches AWS",
}
"""The meaning of AWS's codes where nothing is changed, and what to do."""


def policy_of(settings: Ec2Settings, cluster: Cluster) -> dict[str, Any]:
    """The smallest policy of IAM with which `--fleet ec2` works."""
    looks = "Instances SpotInstanceRequests SpotPriceHistory Images Subnets SecurityGroups InstanceTypes "
    looks += "InstanceTypeOfferings"
    statements: list[dict[str, Any]] = [
        {
            "Sid": "Look",
            "Action": [
                *(f"ec2:Describe{each}" for each in looks.split()),
                "servicequotas:GetServiceQuota",
                "pricing:GetProducts",
            ],
            "Resource": "*",
        },
        {"Sid": "Rent", "Action": "ec2:RunInstances", "Resource": "*"},
        {
            "Sid": "Tag",
            "Action": "ec2:CreateTags",
            "Resource": "*",
            "Condition": {"StringEquals": {"ec2:CreateAction": "RunInstances"}},
        },
        {
            "Sid": "Release",
            "Action": "ec2:TerminateInstances",
            "Resource": "*",
            "Condition": {"StringLike": {f"aws:ResourceTag/{SERVICE}": "*"}},
        },
    ]
    if settings.instance_profile is not None:
        passed = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
        statements.append({"Sid": "Profile", "Action": "iam:PassRole", "Resource": "*", "Condition": passed})
    if settings.image.startswith("resolve:ssm:"):
        statements.append({"Sid": "Image", "Action": "ssm:GetParameters", "Resource": "*"})
    if any(offer.spot is not None for offer in cluster.offers):
        # The first spot machine of an account needs it.
        role = "arn:aws:iam::*:role/aws-service-role/spot.amazonaws.com/*"
        statements.append({"Sid": "Spot", "Action": "iam:CreateServiceLinkedRole", "Resource": role})
    allowed = [{"Effect": "Allow", **each} for each in statements]
    return {"Version": "2012-10-17", "Statement": allowed}


class Doctor:
    """Checks the table `[ec2]` and the offers of a cluster file. client: makes a client of boto3."""

    def __init__(
        self, settings: Ec2Settings, cluster: Cluster, client: Callable[..., Any] = open_client
    ) -> None:
        self._settings, self._offers, self._client = settings, cluster.offers, client
        self._ec2 = client(settings.region, "ec2")
        self._types: dict[str, dict[str, Any]] = {}  # as AWS describes them

    def examine(self) -> list[Finding]:
        """Each check and its outcome; without credentials there is only that."""
        found = list(self._found("credentials", None, self._credentials))
        if found[0].ok:
            for check, look in (
                ("image", self._image),
                ("network", self._network),
            ):
                found += self._found(check, None, look)
            for offer in self._offers:
                for check, look in (
                    ("type", self._type),
                    ("zones", self._zones),
                    ("price", self._price),
                    ("quota", self._quota),
                    ("rent", self._rent),
                ):
                    found += self._found(check, offer.type, lambda look=look, offer=offer: look(offer))
            found += self._found("release", None, self._release)
        return found

    def _found(self, check: str, offer: str | None, look: Callable[[], str]) -> Iterator[Finding]:
        try:
            yield Finding(check, offer, True, look())
        except _Wrong as wrong:
            yield Finding(check, offer, False, str(wrong))
        except AwsError as error:
            yield Finding(check, offer, False, _remedy(error))

    # --- checks: each returns what it has found, or raises _Wrong or AwsError ---

    def _credentials(self) -> str:
        sts = self._client(self._settings.region, "sts")
        return f"{asked(sts.get_caller_identity)['Arn']}, region {self._settings.region}"

    def _image(self) -> str:
        image = self._settings.image
        if image.startswith("resolve:ssm:"):
            return f"{image}, which the checks of renting look up"
        images = asked(self._ec2.describe_images, ImageIds=[image])["Images"]
        if not images:
            raise _Wrong(f"there is no image {image} in {self._settings.region}: {TROUBLES['image'][0]}")
        if images[0].get("State") != "available":
            raise _Wrong(f"image {image} is {images[0].get('State')}; wait, or name another one")
        built_for = images[0].get("Architecture", "x86_64")
        for type_ in {pools_of(offer, self._settings)[0].type for offer in self._offers}:
            runs = self._described(type_)["ProcessorInfo"]["SupportedArchitectures"]
            if built_for not in runs:
                raise _Wrong(
                    f"image {image} is built for {built_for}, and {type_} runs {', '.join(runs)}; name another one"
                )
        return f"{image} ({images[0].get('Name', 'without a name')}, {built_for})"

    def _network(self) -> str:
        subnets = asked(self._ec2.describe_subnets, SubnetIds=[*self._settings.subnets.values()])["Subnets"]
        by_id = {each["SubnetId"]: each for each in subnets}
        for zone, id_ in self._settings.subnets.items():
            found = by_id[id_]
            if found["AvailabilityZone"] != zone:
                raise _Wrong(
                    f"subnet {id_} is in {found['AvailabilityZone']}, not in {zone}; correct [ec2] subnets"
                )
        free = sum(each["AvailableIpAddressCount"] for each in subnets)
        groups = asked(self._ec2.describe_security_groups, GroupIds=self._settings.security_groups)
        networks = {each["VpcId"] for each in (*subnets, *groups["SecurityGroups"])}
        if len(networks) > 1:
            raise _Wrong(
                f"subnets and security groups are of several networks, {', '.join(sorted(networks))}; name those of one"
            )
        return f"{', '.join(self._settings.subnets)}; {free} free addresses"

    def _described(self, type_: str) -> dict[str, Any]:
        if type_ not in self._types:
            try:
                (self._types[type_],) = asked(self._ec2.describe_instance_types, InstanceTypes=[type_])[
                    "InstanceTypes"
                ]
            except AwsError as error:
                if error.kind == "invalid":
                    raise _Wrong(f"{self._settings.region} has no {type_}; leave the offer out") from None
                raise
        return self._types[type_]

    def _type(self, offer: Offer) -> str:
        type_ = pools_of(offer, self._settings)[0].type
        found = self._described(type_)
        cpu, memory_gib = found["VCpuInfo"]["DefaultVCpus"], found["MemoryInfo"]["SizeInMiB"] / 1024
        gpu = sum(each["Count"] for each in found.get("GpuInfo", {}).get("Gpus", []))
        text = f"{cpu} vCPUs, {memory_gib:g} GiB, {gpu} GPUs"
        if offer.cpu > cpu or offer.memory_gib > memory_gib or offer.gpu > gpu:
            raise _Wrong(
                f"{type_} has {text}, and the offer {offer.cpu:g}, {offer.memory_gib:g} GiB and {offer.gpu:g}: jobs "
                "would not fit; correct the file"
            )
        return text

    def _zones(self, offer: Offer) -> str:
        pools = pools_of(offer, self._settings)
        answer = asked(
            self._ec2.describe_instance_type_offerings,
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [pools[0].type]}],
        )
        there = {each["Location"] for each in answer["InstanceTypeOfferings"]}
        missing = [pool.zone for pool in pools if pool.zone not in there]
        if missing:
            has = ", ".join(sorted(there)) or "none"
            raise _Wrong(
                f"there are no {pools[0].type} in {', '.join(missing)}; these zones have them: {has}. Give the offer "
                'the label of one (labels = { zone = "..." }), or leave it out'
            )
        return ", ".join(pool.zone for pool in pools)

    def _price(self, offer: Offer) -> str:
        pool = pools_of(offer, self._settings)[0]
        if pool.market == "spot":
            now = spot_price(self._ec2, pool)
            if now is None:
                raise _Wrong(f"AWS has no spot price of {pool}; offer it in another zone, or without spot")
            return f"${now:g} an hour now, ${offer.usd_per_h:g} on demand; followed while the service runs"
        listed = self._listed_usd_per_h(pool.type)
        if listed is None:
            return f"${offer.usd_per_h:g} an hour in the file; AWS's price list has none; compare it with your bill"
        if abs(offer.usd_per_h - listed) > OFF_FRAC * listed:
            raise _Wrong(
                f"the file is out of date: ${offer.usd_per_h:g} an hour, and ${listed:g} in AWS's price list; what is "
                f"spent would be counted wrong; write usd_per_h = {listed:g}"
            )
        return f"${listed:g} an hour, as in AWS's price list"

    def _listed_usd_per_h(self, type_: str) -> float | None:
        wanted = {
            "instanceType": type_,
            "regionCode": self._settings.region,
            "operatingSystem": "Linux",
            "tenancy": "Shared",
            "preInstalledSw": "NA",
            "capacitystatus": "Used",
        }
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
        answer = asked(
            self._client(PRICES_IN, "pricing").get_products, ServiceCode="AmazonEC2", Filters=filters
        )
        for text in answer["PriceList"]:
            for term in json.loads(text)["terms"]["OnDemand"].values():
                for dimension in term["priceDimensions"].values():
                    return float(dimension["pricePerUnit"]["USD"])
        return None

    def _quota(self, offer: Offer) -> str:
        pool = pools_of(offer, self._settings)[0]
        cpu = self._described(pool.type)["VCpuInfo"]["DefaultVCpus"]
        family = next((key for key in _QUOTAS if pool.type.startswith(key)), "standard")
        code = _QUOTAS[family][pool.market == "spot"]
        quotas = self._client(self._settings.region, "service-quotas")
        try:
            found = asked(quotas.get_service_quota, ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"]
        except AwsError as error:  # which does not mean that there may be none
            raise _Wrong(f"not known: {_remedy(error)}; or look at {code} in Service Quotas") from None
        if found < cpu:
            raise _Wrong(
                f"the account may run {found:g} vCPUs of this kind, and one machine has {cpu}: ask AWS for more "
                f"(Service Quotas, Amazon EC2, {code})"
            )
        return f"{found:g} vCPUs: {int(found // cpu)} machines"

    def _rent(self, offer: Offer) -> str:
        machine = Machine("doctor-0", "cloud", offer.type, offer.cpu, offer.memory_gib, offer.gpu)
        for pool in pools_of(offer, self._settings):
            launch = launch_of(self._settings, pool, "betimes-doctor", machine, "#!/bin/sh\n")
            self._dry(self._ec2.run_instances, **launch)
        return "would be rented (tried with DryRun)"

    def _release(self) -> str:
        """Terminating is allowed for machines with the service's tag only, so that it takes one to try it."""
        answer = asked(
            self._ec2.describe_instances,
            Filters=[
                {"Name": "tag-key", "Values": [SERVICE]},
                {"Name": "instance-state-name", "Values": ["running"]},
            ],
        )
        ids = [each["InstanceId"] for one in answer["Reservations"] for each in one["Instances"]]
        if not ids:
            return "can be tried once a machine is rented; run this again then"
        self._dry(self._ec2.terminate_instances, InstanceIds=ids[:1])
        return "would be given back (tried with DryRun)"

    def _dry(self, call: Callable[..., dict[str, Any]], **arguments: Any) -> None:
        try:
            asked(call, DryRun=True, **arguments)
        except AwsError as error:
            if error.code != "DryRunOperation":
                raise


def _remedy(error: AwsError) -> str:
    return f"{_REMEDIES[error.kind]} ({error.code}: {error.message[:200]})"


class _Wrong(Exception):
    """A check has found a fault; the message names what to do."""
