"""EC2 as its customers meet it on a bad day: pools that are empty, answers that are lost, machines seen late.

It has the calls of boto3's client that the back end uses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from betimes.service.executors.ray.connection import MACHINE

LIVE = ("pending", "running")


def refusal(code: str, call: str = "RunInstances") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": f"a test wants {code}"}}, call)


class FakeEc2:
    """Instances, their tokens and their tags. clock: seconds since 1970."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.instances: dict[str, dict[str, Any]] = {}
        self.free: dict[tuple[str, str, str], int] = {}  # by (type, zone, market); others have any number
        self.errors: dict[
            str, list[Exception]
        ] = {}  # by call: raised by the next ones, which then do nothing
        self.lost = Counter[str]()  # by call: so many next ones have no answer, and have happened
        self.empty = 0  # so many next launches answer with no instance, and have happened
        self.seen_late_s = 0.0  # so old has an instance to be for others to see it
        self.is_down = False
        self.spot_usd_per_h = 3.6
        self.launches: list[dict[str, Any]] = []  # the arguments of all calls
        self.terminations: list[str] = []  # the instances of all calls
        self._tokens: dict[str, tuple[dict[str, Any], str]] = {}

    # --- calls ---

    def run_instances(self, **asked: Any) -> dict[str, Any]:
        self.launches.append(asked)
        self._begin("run_instances")
        token = asked["ClientToken"]
        if token in self._tokens:
            before, known = self._tokens[token]
            if before != asked:
                raise refusal("IdempotentParameterMismatch")
            if self.instances[known]["State"]["Name"] not in LIVE:
                raise refusal("IdempotentInstanceTerminated")
            return self._answer("run_instances", {"Instances": [self.instances[known]]})
        market = "spot" if "InstanceMarketOptions" in asked else "on-demand"
        pool = asked["InstanceType"], asked["SubnetId"].removeprefix("subnet-"), market
        if self.free.get(pool, 1) <= 0:
            raise refusal("InsufficientInstanceCapacity")
        if pool in self.free:
            self.free[pool] -= 1
        id_ = f"i-{len(self.instances)}"
        (tags,) = [each["Tags"] for each in asked["TagSpecifications"] if each["ResourceType"] == "instance"]
        self.instances[id_] = {
            "InstanceId": id_,
            "State": {"Name": "running"},
            "LaunchTime": datetime.fromtimestamp(self._clock(), UTC),
            "Tags": tags,
            "pool": pool,
            **({"SpotInstanceRequestId": f"sir-{id_}", "notice": False} if market == "spot" else {}),
        }
        self._tokens[token] = asked, id_
        if self.empty:
            self.empty -= 1
            return {"Instances": []}
        return self._answer("run_instances", {"Instances": [self.instances[id_]]})

    def terminate_instances(self, InstanceIds: list[str]) -> dict[str, Any]:  # noqa: N803
        self._begin("terminate_instances")
        if any(not self._is_seen(id_) for id_ in InstanceIds):
            raise refusal("InvalidInstanceID.NotFound", "TerminateInstances")
        self.terminations += InstanceIds
        for id_ in InstanceIds:
            self.end(id_)
        return self._answer("terminate_instances", {})

    def describe_instances(self, Filters: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self._begin("describe_instances")
        wanted = {each["Name"]: each["Values"] for each in Filters}
        found = [
            each
            for id_, each in self.instances.items()
            if self._is_seen(id_)
            and all(self._tag(each, name.removeprefix("tag:")) in values for name, values in wanted.items())
        ]
        return {"Reservations": [{"Instances": [each]} for each in found]}

    def describe_spot_instance_requests(self, Filters: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self._begin("describe_spot_instance_requests")
        codes = {True: "marked-for-termination", False: "fulfilled"}
        return {
            "SpotInstanceRequests": [
                {
                    "SpotInstanceRequestId": each["SpotInstanceRequestId"],
                    "Status": {"Code": codes[each["notice"]]},
                }
                for each in self.instances.values()
                if each.get("SpotInstanceRequestId") in Filters[0]["Values"]
            ]
        }

    def describe_spot_price_history(self, **asked: Any) -> dict[str, Any]:
        self._begin("describe_spot_price_history")
        return {"SpotPriceHistory": [{"SpotPrice": str(self.spot_usd_per_h)}]}

    # --- the cloud's part ---

    def running(self) -> list[dict[str, Any]]:
        return [each for each in self.instances.values() if each["State"]["Name"] in LIVE]

    def names(self) -> list[str]:
        """The machines' names of the instances that run."""
        return sorted(self._tag(each, MACHINE) for each in self.running())

    def instance(self, name: str) -> dict[str, Any]:
        (found,) = [each for each in self.running() if self._tag(each, MACHINE) == name]
        return found

    def end(self, id_: str) -> None:
        """An instance ends, and is paid for until now."""
        if self.instances[id_]["State"]["Name"] in LIVE:
            at = datetime.fromtimestamp(self._clock(), UTC)
            self.instances[id_] |= {
                "State": {"Name": "terminated"},
                "StateTransitionReason": f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)",
                "ended_s": self._clock(),
            }

    def bill_usd(self, usd_per_h: Mapping[str, float], until_s: Mapping[str, float] | None = None) -> float:
        """Each second begun of each instance, a minute at least. until_s: of these machines alone, until then."""
        total = Fraction(0)
        for each in self.instances.values():
            name, end_s = self._tag(each, MACHINE), each.get("ended_s", self._clock())
            if until_s is not None:
                end_s = until_s.get(name)
            if end_s is None:
                continue
            lasted_s = Fraction(end_s) - Fraction(each["LaunchTime"].timestamp())
            total += max(60, math.ceil(lasted_s)) * Fraction(usd_per_h[each["pool"][0]]) / 3600
        return float(total)

    def _is_seen(self, id_: str) -> bool:
        each = self.instances.get(id_)
        return each is not None and self._clock() >= each["LaunchTime"].timestamp() + self.seen_late_s

    def _tag(self, each: dict[str, Any], key: str) -> str:
        return next(tag["Value"] for tag in each["Tags"] if tag["Key"] == key)

    def _begin(self, call: str) -> None:
        if self.is_down:
            raise EndpointConnectionError(endpoint_url="https://ec2.example")
        if self.errors.get(call):
            raise self.errors[call].pop(0)

    def _answer(self, call: str, answer: dict[str, Any]) -> dict[str, Any]:
        if self.lost[call] > 0:
            self.lost[call] -= 1
            raise ReadTimeoutError(endpoint_url="https://ec2.example")
        return answer
