"""The back end `ec2`: machines of AWS, by boto3 and with the credentials that it finds; none are kept here.

A call of RunInstances that may or may not have rented is repeated with the same client token, which rents nothing
twice. The SDK does not repeat it: that would turn a lack of capacity into throttling.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import Any, Generic, Literal, TypeVar

from betimes.cluster.offer import Offer
from betimes.errors import CloudError, InputError
from betimes.service.executors.ray.connection import MACHINE, SERVICE
from betimes.service.executors.ray.joining import RentedNodes
from betimes.service.executors.rented.ec2_file import (
    Ec2Settings,
    Pool,
    launch_of,
    pools_of,
    user_data_of,
)
from betimes.service.executors.rented.remote_cloud import (
    LATE_S,
    Call,
    Ended,
    Listed,
    Listing,
    Released,
    Rented,
)
from betimes.service.machines.machine import Kind, Machine

REFUSED_S = 180.0  # for so long a pool that has refused is not asked
TRIES, FIRST_WAIT_S = 5, 1.0
"""Of a launch that was throttled, or whose answer was lost; each wait is twice the last."""
PRICES_S = 300.0  # between two looks at spot prices
NOTICE_S = 120.0  # from the notice until a spot machine is taken away
_GONE = ("shutting-down", "terminated")  # any other state is, or could again be, paid for
_ENDED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (GMT|UTC)\)")

_A = TypeVar("_A")

# --- errors ---

Trouble = Literal[
    "capacity", "quota", "throttled", "image", "permission", "token", "gone", "invalid", "unknown"
]
TROUBLES: dict[Trouble, tuple[str, str]] = {
    "capacity": (
        "there are none now",
        # the last: no such type in that zone
        "InsufficientInstanceCapacity InsufficientHostCapacity InsufficientCapacity UnfulfillableCapacity "
        "InsufficientFreeAddressesInSubnet SpotMaxPriceTooLow Unsupported",
    ),
    "quota": (
        "the account may hold no more; ask AWS for more (Service Quotas, Amazon EC2)",
        "VcpuLimitExceeded InstanceLimitExceeded MaxSpotInstanceCountExceeded SpotInstanceCountExceeded "
        "VolumeLimitExceeded PendingVerification",
    ),
    "throttled": (
        "AWS asks for fewer calls",
        "RequestLimitExceeded Throttling ThrottlingException EC2ThrottledException TooManyRequestsException",
    ),
    "image": (
        "the image is not in this region, or not for this account; look at [ec2] image",
        "InvalidAMIID.NotFound InvalidAMIID.Malformed InvalidAMIID.Unavailable",
    ),
    "permission": (
        "the credentials are missing, too old, or do not allow it; `betimes fleet doctor` prints the policy",
        "UnauthorizedOperation AuthFailure AccessDenied AccessDeniedException InvalidClientTokenId "
        "UnrecognizedClientException SignatureDoesNotMatch ExpiredToken ExpiredTokenException RequestExpired "
        "OptInRequired Blocked NoCredentials",
    ),
    "token": (
        "this machine was asked for before, with other settings or by a call whose machine has ended",
        "IdempotentParameterMismatch IdempotentInstanceTerminated",
    ),
    "gone": ("it is not there, or not yet", "InvalidInstanceID.NotFound"),
    "invalid": (
        "AWS does not accept the table [ec2]; `betimes fleet doctor` checks it",
        "InvalidParameter InvalidParameterValue InvalidParameterCombination InvalidInput InvalidInstanceType "
        "InvalidSubnetID.NotFound InvalidGroup.NotFound InvalidGroupId.Malformed InvalidSecurityGroupID.NotFound "
        "MissingParameter UnsupportedOperation ValidationError",
    ),
    "unknown": ("it is not known whether that has happened", ""),
}
"""The meaning of AWS's codes: kind of failure, and advice. Any other code, and no answer at all, is `unknown`."""
_KINDS: dict[str, Trouble] = {code: kind for kind, (_, codes) in TROUBLES.items() for code in codes.split()}


class AwsError(CloudError):
    """A call that AWS has refused, or not answered."""

    def __init__(self, call: str, code: str, message: str) -> None:
        self.kind: Trouble = _KINDS.get(code, "unknown")
        self.code, self.message = code, message
        super().__init__(f"AWS {call}: {TROUBLES[self.kind][0]} ({code}: {message[:200]})")


def asked(call: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """The answer to a call of a client. Raises AwsError for all that boto3 raises."""
    errors = import_module("botocore.exceptions")
    name = getattr(call, "__name__", "call")
    try:
        return call(**arguments)
    except errors.ClientError as error:
        found = error.response["Error"]
        raise AwsError(name, found.get("Code", ""), found.get("Message", "")) from None
    except (errors.NoCredentialsError, errors.PartialCredentialsError) as error:
        raise AwsError(name, "NoCredentials", str(error)) from None
    except errors.BotoCoreError as error:
        raise AwsError(name, type(error).__name__, str(error)) from None


def open_client(region: str, name: str, repeats: bool = True) -> Any:
    """A client of boto3; repeats: the SDK may repeat its calls. Raises InputError without boto3."""
    try:
        session, config = import_module("boto3").Session(region_name=region), import_module("botocore.config")
    except ImportError:
        raise InputError("--fleet ec2: boto3 is not installed: pip install 'betimes[aws]'") from None
    retries = {"total_max_attempts": 4 if repeats else 1, "mode": "standard"}
    return session.client(name, config=config.Config(retries=retries, connect_timeout=10, read_timeout=60))


def check_credentials(region: str) -> None:
    """Raise InputError where boto3 is not installed, or finds no credentials."""
    open_client(region, "ec2")
    if import_module("boto3").Session(region_name=region).get_credentials() is None:
        raise InputError(
            "--fleet ec2: there are no credentials of AWS here; give this machine a role or name a profile "
            "(AWS_PROFILE); `betimes fleet doctor` checks them"
        )


# --- calls beside the service ---


class ThreadCall(Generic[_A]):
    """A call in a thread, which does not hold up the service's end."""

    def __init__(self, work: Callable[[], _A]) -> None:
        self._work, self._error, self.is_over = work, None, False
        threading.Thread(target=self._run, daemon=True, name="ec2").start()

    def _run(self) -> None:
        try:
            self._answer = self._work()
        except BaseException as error:  # raised by `result`
            self._error = error
        self.is_over = True

    def result(self) -> _A:
        """The answer. Raises what the call has raised."""
        if self._error is not None:
            raise self._error
        return self._answer


@dataclass
class _Pace:
    """At most so many launches in any minute: each takes its turn, and a pause makes good for the next ones."""

    per_min: int
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._lock, self._due_s = threading.Lock(), -1e9

    def turn_s(self) -> float:
        """Take a turn; how long to wait for it."""
        each_s = 60.0 / self.per_min
        with self._lock:
            now_s = self.clock()
            self._due_s = max(self._due_s, now_s) + each_s
            return max(0.0, self._due_s - now_s - 60.0)


class Ec2:
    """A `Backend` of EC2. nodes: of the Ray cluster, which machines join. client: makes a client of boto3."""

    name = "ec2"
    kind: Kind = "cloud"

    def __init__(
        self,
        settings: Ec2Settings,
        offers: tuple[Offer, ...],
        nodes: RentedNodes,
        client: Callable[..., Any] = open_client,
        begin: Callable[[Callable[[], Any]], Call[Any]] = ThreadCall,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings, self._nodes, self._begin, self._wait, self._clock = (
            settings,
            nodes,
            begin,
            wait,
            clock,
        )
        self._launches = client(settings.region, "ec2", repeats=False)
        self._client = client(settings.region, "ec2")
        self._pools = {offer.type: pools_of(offer, settings) for offer in offers}
        self._pace = _Pace(settings.launches_per_min, clock)
        self._refused: dict[Pool, tuple[float, AwsError]] = {}
        self._ids: dict[str, tuple[str, float]] = {}  # of machines rented since the start, and when, by name
        self._prices: dict[str, float] = {}  # of spot machines, by the offer's type
        self._prices_at_s = -1e9
        nodes.have_notices = any(offer.spot is not None for offer in offers)

    def rent(self, service: str, machine: Machine) -> Call[Rented]:
        """RunInstances in each zone, until one has a machine."""
        return self._begin(lambda: self._rent(service, machine))

    def release(self, service: str, name: str) -> Call[Released]:
        """TerminateInstances of all with a machine's name."""
        return self._begin(lambda: self._release(service, name))

    def list(self, service: str) -> Call[Listing]:
        """DescribeInstances of those with the service's tag."""
        return self._begin(lambda: self._list(service))

    # --- rent ---

    def _rent(self, service: str, machine: Machine) -> Rented:
        refusals: list[tuple[Pool, AwsError]] = []
        for pool in self._pools[machine.type]:
            until_s, known = self._refused.get(pool, (0.0, None))
            if known is None or self._clock() >= until_s:
                known = self._launch(pool, service, machine)
            if known is None:
                return Rented()
            refusals.append((pool, known))
        tried = "; ".join(f"{pool}: {error.code}: {error.message[:120]}" for pool, error in refusals)
        quota = any(error.kind == "quota" for _, error in refusals)
        why = "quota" if quota else "capacity"
        return Rented(refused=why, text=f"EC2 has no {machine.type} now, {TROUBLES[why][0]}: {tried}")

    def _launch(self, pool: Pool, service: str, machine: Machine) -> AwsError | None:
        """Rent a machine of a pool; why it has none, which is remembered. Raises AwsError for any other trouble."""
        script = user_data_of(self._settings, self._nodes.service, self._nodes.address, machine.name)
        launch = launch_of(self._settings, pool, service, machine, script)
        try:
            answer = self._until_known(launch)
            if not answer["Instances"]:  # "as many as there are" may be none
                raise AwsError("run_instances", "InsufficientInstanceCapacity", "an empty answer")
        except AwsError as error:
            if error.kind not in ("capacity", "quota"):
                raise
            self._refused[pool] = (self._clock() + REFUSED_S, error)
            return error
        self._ids[machine.name] = answer["Instances"][0]["InstanceId"], self._clock()
        return None

    def _until_known(self, launch: dict[str, Any]) -> dict[str, Any]:
        """The answer to a launch, repeated where it was throttled or lost: with its token that rents nothing twice."""
        wait_s = FIRST_WAIT_S
        for left in reversed(range(TRIES)):
            self._wait(self._pace.turn_s())
            try:
                return asked(self._launches.run_instances, **launch)
            except AwsError as error:
                if left == 0 or error.kind not in ("throttled", "unknown"):
                    raise
            self._wait(wait_s)
            wait_s *= 2
        raise AssertionError("the last try returns or raises")

    # --- release, list ---

    def _release(self, service: str, name: str) -> Released:
        found = {each["InstanceId"]: each for each in self._found(service, name)}
        ids = {id_ for id_, each in found.items() if not _is_gone(each)}
        known, rented_at_s = self._ids.get(name, (None, 0.0))
        if known is not None and known not in found:
            ids.add(known)
        try:
            if ids:
                asked(self._client.terminate_instances, InstanceIds=sorted(ids))
        except AwsError as error:  # not seen yet, or forgotten already
            if error.kind != "gone" or ids != {known} or self._clock() < rented_at_s + LATE_S:
                raise
        self._ids.pop(name, None)
        return Released()

    def _list(self, service: str) -> Listing:
        by_name: dict[str, list[dict[str, Any]]] = {}
        ended: dict[str, Ended] = {}
        for each in self._found(service):
            name = next(tag["Value"] for tag in each["Tags"] if tag["Key"] == MACHINE)
            if _is_gone(each):
                ended[name] = _end_of(name, each)
            else:
                by_name.setdefault(name, []).append(each)
        kept: dict[str, dict[str, Any]] = {}
        twice: set[str] = set()
        for name, found in by_name.items():
            # A zone that had answered "none" may have rented one all the same.
            known, _ = self._ids.get(name, (None, 0.0))
            found.sort(key=lambda each: (each["InstanceId"] != known, each["LaunchTime"]))
            kept[name] = found[0]
            twice |= {each["InstanceId"] for each in found[1:]}
        if twice:
            asked(self._client.terminate_instances, InstanceIds=sorted(twice))
        notices = self._notices(kept)
        return Listing(
            machines=[
                Listed(
                    name=name,
                    state="up" if each["State"]["Name"] == "running" else "booting",
                    notice_s=notices.get(name),
                )
                for name, each in kept.items()
            ],
            ended=list(ended.values()),
            usd_per_h=self._spot_prices(),
        )

    def _found(self, service: str, name: str | None = None) -> list[dict[str, Any]]:
        wanted = {f"tag:{SERVICE}": [service]}
        if name is not None:
            wanted[f"tag:{MACHINE}"] = [name]
        pages = self._paged(self._client.describe_instances, "Reservations", wanted)
        return [each for page in pages for each in page["Instances"]]

    def _paged(
        self, call: Callable[..., dict[str, Any]], what: str, wanted: Mapping[str, list[str]], **more: Any
    ) -> list[dict[str, Any]]:
        filters = [{"Name": name, "Values": values} for name, values in wanted.items()]
        found: list[dict[str, Any]] = []
        while True:
            answer = asked(call, Filters=filters, **more)
            found += answer[what]
            if not answer.get("NextToken"):
                return found
            more["NextToken"] = answer["NextToken"]

    def _notices(self, machines: Mapping[str, dict[str, Any]]) -> dict[str, float]:
        """Seconds until spot machines are taken away, of those that know it: by the machine itself, or by EC2."""
        now_s = time.time()
        found = {
            name: max(0.0, at_s - now_s) for name, at_s in self._nodes.notices.items() if name in machines
        }
        requests = {
            each["SpotInstanceRequestId"]: name
            for name, each in machines.items()
            if each.get("SpotInstanceRequestId") and name not in found
        }
        if requests:
            wanted = {"spot-instance-request-id": sorted(requests)}
            for each in self._paged(
                self._client.describe_spot_instance_requests, "SpotInstanceRequests", wanted
            ):
                if each["Status"]["Code"] == "marked-for-termination":
                    found[requests[each["SpotInstanceRequestId"]]] = NOTICE_S
        return found

    def _spot_prices(self) -> dict[str, float]:
        """The prices of spot machines now, by the offer's type."""
        if self._clock() >= self._prices_at_s + PRICES_S:
            self._prices_at_s = self._clock()
            for type_, (pool, *_) in self._pools.items():
                if pool.market == "spot" and (price := spot_price(self._client, pool)) is not None:
                    self._prices[type_] = price
        return self._prices


def _is_gone(instance: Mapping[str, Any]) -> bool:
    return instance["State"]["Name"] in _GONE


def _end_of(name: str, instance: Mapping[str, Any]) -> Ended:
    """From when until when an instance is paid for, and why it has ended, as far as EC2 reports it."""
    reason = instance.get("StateReason", {}).get("Message") or "it has ended"
    found = _ENDED_AT.search(instance.get("StateTransitionReason", ""))
    if found is None:
        return Ended(name=name, why=reason)
    at = datetime.strptime(f"{found[1]} +0000", "%Y-%m-%d %H:%M:%S %z")
    return Ended(name=name, at_s=at.timestamp(), since_s=instance["LaunchTime"].timestamp(), why=reason)


def spot_price(client: Any, pool: Pool) -> float | None:
    """A pool's price now, USD an hour; null: AWS has none. Raises AwsError."""
    answer = asked(
        client.describe_spot_price_history,
        InstanceTypes=[pool.type],
        AvailabilityZone=pool.zone,
        ProductDescriptions=["Linux/UNIX"],
        StartTime=time.time(),
        MaxResults=1,
    )
    return next((float(each["SpotPrice"]) for each in answer["SpotPriceHistory"]), None)
