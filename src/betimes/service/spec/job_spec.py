"""A job's request: one model for the command line, files, the Python client and the API."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from betimes.cluster.labels import KEY_PATTERN, MOST_LABELS, VALUE_PATTERN, Labels, labels_of, parse_labels
from betimes.cluster.resources import UnitDemand
from betimes.errors import ClusterError, CurveError
from betimes.service.spec.family_demand import NUMBER, Amount, FamilyDemand
from betimes.service.spec.spelling import ADDRESS, MOST_CHARACTERS, RESOURCE, checked_address, mail_types
from betimes.workload.speedup_formulas import LINEAR, parse_formula

MOST_ARGUMENTS = 4096
MOST_ELEMENTS = 100_000  # of an array
MOST_UNITS = 1_000_000
MOST_NAMED = 12  # choices in a message
MOST_POINTS = 10_000  # of a speed-up table
MOST_AFTER = 1000  # jobs that one waits for
MOST_SECONDS = 1e9
MOST_STEPS = 10**12
MOST_FAMILIES = 100  # with their own demand, of a job
SHA256 = "^[0-9a-f]{64}$"  # in hexadecimal digits


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character, which no command, path or variable can")
    return text


_WORKLOAD = "^[!-~]([ -~]*[!-~])?$"


def _workload(text: str) -> str:
    if not re.fullmatch(_WORKLOAD, text):
        raise ValueError(
            f"{text[:60]!r} is no name of a workload: give ASCII letters, digits and signs, without spaces around them"
        )
    return text


def _whole(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticKnownError("int_type")
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _tasks(value: object) -> object:
    """The choice of units a task, with one message for all invalid ones."""
    given = value if isinstance(value, bool) else _whole(value)
    if (isinstance(given, str) and given in TASK_CHOICES) or (
        type(given) is int and 1 <= given <= MOST_UNITS
    ):
        return given
    shown = repr(given)[:40]
    raise ValueError(f"{shown} is not pack, spread or a number of units from 1 to {MOST_UNITS:,}")


def in_schema(**keywords: Any) -> Any:
    """Schema keywords of a field whose check has a better message than the schema's."""
    return Field(json_schema_extra=keywords)


TASK_CHOICES = ("pack", "spread")
WHOLE = BeforeValidator(_whole)  # 40.0 is a whole number in JSON
Text = Annotated[
    str, Field(max_length=MOST_CHARACTERS), in_schema(pattern=r"^[^\x00]*$"), AfterValidator(_without_nul)
]
Label = Annotated[Text, Field(min_length=1, max_length=200)]
Family = Annotated[Label, in_schema(pattern=r"^[^\x00-\x1f\x7f]+$")]
Workload = Annotated[Label, in_schema(pattern=_WORKLOAD), AfterValidator(_workload)]
Folder = Annotated[Text, in_schema(pattern=r"^/[^\x00]*$")]
QueueName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$", max_length=64)]
Priority = Annotated[int, Field(ge=-1_000_000, le=1_000_000), WHOLE]
ResourceName = Annotated[str, Field(pattern=RESOURCE, max_length=100)]
FileName = Annotated[Text, Field(min_length=1, max_length=4096)]
Sha256 = Annotated[str, in_schema(pattern=SHA256)]
Variable = Annotated[Label, in_schema(pattern=r"^(?!BETIMES_)[^=\x00]+$")]
Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False), NUMBER]
Instant = Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False), NUMBER]

_RANGE = "[0-9]{1,9}(-[0-9]{1,9}(:[0-9]{1,9})?)?"
_ARRAY = re.compile(r"(?P<indices>[0-9,:-]+)(?:%(?P<most>[0-9]{1,9}))?")
ON = ("ok", "any", "fail", "start", "corr")
"""The condition on another job that is waited for: it has succeeded, has ended, or has not succeeded; it has started or
ended; of an array, the element at the same place has succeeded."""
_AFTER = re.compile(rf"(?P<job>[^\0]{{1,200}}?)(?::(?P<on>{'|'.join(ON)}))?", re.DOTALL)
Array = Annotated[
    str,
    Field(max_length=MOST_CHARACTERS),
    in_schema(pattern=rf"^{_RANGE}(,{_RANGE})*(%0{{0,3}}[1-9][0-9]{{0,5}})?$"),
]
After = Annotated[
    str, in_schema(minLength=1, maxLength=206, pattern=rf"^[^\x00]{{1,200}}(:({'|'.join(ON)}))?$")
]
Formula = Annotated[
    str,
    in_schema(maxLength=200, pattern=r"^(linear|(amdahl|power):(0|1|0?\.[0-9]{1,18}|[01]\.0{1,18}))$"),
]
UnitsPerTask = Annotated[
    Literal["pack", "spread"] | Annotated[int, Field(ge=1, le=MOST_UNITS)], BeforeValidator(_tasks)
]


def checked_hook(text: str) -> str:
    """A URL or a command that is notified. Raises ValueError for another kind of URL, or one without a host."""
    scheme = re.match("[A-Za-z][A-Za-z0-9+.-]*://", text)
    if scheme is not None:
        host = urlsplit(text).hostname if scheme[0].lower() in ("http://", "https://") else None
        if not host or not text.isprintable() or " " in text:
            raise ValueError("it is no URL of http or https; write https://HOST/PATH, or a command")
    if not text.strip():
        raise ValueError("give a URL or a command")
    return text


def is_url(hook: str) -> bool:
    """Whether a hook is a URL, and not a command."""
    return hook.lower().startswith(("http://", "https://"))


def hook_host(hook: str) -> str:
    """The host of a hook, which may be logged and shown to others. The rest of a URL, or a command, may be secret."""
    return str(urlsplit(hook).hostname) if is_url(hook) else "a command"


MailType = Literal["BEGIN", "END", "FAIL", "ARRAY_TASKS"]
_COMMAND = r"(?![A-Za-z][A-Za-z0-9+.-]*://)[^\x00]*[^\x00\s][^\x00]*"
Hook = Annotated[
    Text,
    in_schema(pattern=rf"^(https?://[A-Za-z0-9.-]+(:[0-9]{{1,5}})?(/[!-~]*)?|{_COMMAND})$"),
    AfterValidator(checked_hook),
]


def node_labels(value: object) -> dict[str, str]:
    """Labels of nodes, as a mapping of one or of texts such as `zone=a`. Raises ValueError."""
    try:
        if isinstance(value, dict):
            return dict(labels_of(value))
        if isinstance(value, list) and all(isinstance(text, str) for text in value):
            return dict(parse_labels(value))
    except ClusterError as error:
        raise ValueError(str(error)) from None
    raise ValueError(f"expected labels such as zone=a, found {repr(value)[:40]}")


NodeLabels = Annotated[
    dict[str, str],
    BeforeValidator(node_labels),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "object",
                    "propertyNames": {"pattern": KEY_PATTERN},
                    "additionalProperties": {"type": "string", "pattern": VALUE_PATTERN},
                    "maxProperties": MOST_LABELS,
                },
                {
                    "type": "array",
                    "items": {"type": "string", "pattern": f"{KEY_PATTERN[:-1]}={VALUE_PATTERN[1:]}"},
                    "maxItems": MOST_LABELS,
                },
            ]
        }
    ),
]
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


class Curve(BaseModel):
    """A measured speed-up table: how much faster on so many units than on one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    speedup: dict[int, Annotated[float, Field(gt=0, allow_inf_nan=False), NUMBER]] = Field(
        min_length=1,
        max_length=MOST_POINTS,
        json_schema_extra={
            "propertyNames": {"pattern": "^[1-9][0-9]{0,5}$"},
            "properties": {"1": {"const": 1}},
        },
    )

    @field_validator("speedup")
    @classmethod
    def _grows(cls, speedup: dict[int, float]) -> dict[int, float]:
        units = sorted(speedup)
        if units[0] < 1:
            raise ValueError(f"{units[0]} units: a table begins at one unit")
        if speedup.get(1, 1.0) != 1.0:
            raise ValueError(f"{speedup[1]:g} on one unit: a speed-up is relative to one unit, so that is 1")
        for fewer, more in pairwise(units):
            if speedup[more] < speedup[fewer]:
                raise ValueError(f"{more} units are slower than {fewer}; a table never falls")
        return speedup


class JobSpec(BaseModel):
    """A job as submitted. Amounts are per unit; a job is rigid unless `max_units` is more than `min_units`."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [{"command": ["python", "train.py"], "gpu": 1, "max_units": 4, "estimate_s": 7200}]
        },
    )

    command: list[Text] = Field(
        min_length=1,
        max_length=MOST_ARGUMENTS,
        json_schema_extra={"prefixItems": [{"type": "string", "minLength": 1, "pattern": r"^[^\x00]*$"}]},
    )
    name: Label | None = None  # the program's name by default
    workload: Workload | None = None  # what kind of work it is: types of rented machines have speeds for it
    workdir: Folder | None = None  # absolute; the submitter's by default
    upload: Sha256 | None = None  # of a directory that was sent to the service: it runs in a copy of that
    env: dict[Variable, Text] = Field(default_factory=dict)
    conda: FileName | None = None  # the environment of conda that it runs in, by name or path
    venv: Folder | None = None  # the virtual environment that it runs in
    image: FileName | None = None  # the container image that it runs in
    stdin: Text | None = None  # what the command reads from standard input
    output: FileName | None = None
    """The file for standard output, in place of the log; %j is the job's number."""
    error: FileName | None = None  # the file for standard error; by default that of the output
    cpu: Amount = 1.0  # cores
    memory_gib: Amount = 0.0  # 0: no limit, none set aside
    gpu: Amount = 0.0
    demand: dict[Family, FamilyDemand] = Field(default_factory=dict, max_length=MOST_FAMILIES)
    """The demand of a unit on machines of a family instead; it then runs on these families only."""
    min_units: Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE] = 1
    max_units: Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE] = 1
    units_per_task: UnitsPerTask = "pack"
    """Units that stay together on a node, where the policy is one for nodes."""
    curve: Formula | Curve = LINEAR  # linear, amdahl:F, power:A, or a table
    qos: Literal["trial", "best-effort"] = "best-effort"
    rent: Literal["auto", "never", "now"] = "auto"
    """A machine of its own: as the policy has it, never, or at once."""
    priority: Priority = 0
    grace_s: Annotated[float, NUMBER] = Field(default=30.0, ge=0, le=86_400, allow_inf_nan=False)
    estimate_s: Seconds | None = None  # of the run on max_units
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS), WHOLE] | None = None
    step_s: Seconds | None = None
    time_limit_s: Seconds | None = None
    warn_s: Annotated[float, NUMBER] = Field(default=60.0, ge=0, le=86_400, allow_inf_nan=False)
    """Before the limit, by warn_signal."""
    warn_signal: Literal["USR1", "USR2", "TERM", "INT", "HUP"] = "USR1"
    checkpoint_dir: Folder | None = None  # a folder of the job's own by default
    array: Array | None = None  # 1-100%10
    as_one: bool = False  # the array is one elastic job, each element of which is a trial on one unit
    after: list[After] = Field(default_factory=list, max_length=MOST_AFTER)  # "41", "41:any", "prep:fail"
    singleton: bool = False  # start when all of its user's jobs of its name that came before are over
    begin_at: Instant | None = None
    """Not before; s since 1970."""
    hold: bool = False  # keep it from starting until a user releases it
    retries: Annotated[int, Field(ge=0, le=1000), WHOLE] = 0
    backoff_s: Annotated[float, NUMBER] = Field(
        default=10.0, ge=0, le=86_400, allow_inf_nan=False
    )  # doubled with every retry
    requeue: bool = True  # False: a run that was preempted, resized or lost with its node fails the job
    notify: Hook | None = None
    """A URL, or a command on the service's machine: when it starts, ends, fails, is late."""
    mail_type: Annotated[list[MailType], BeforeValidator(mail_types)] = Field(
        default_factory=list, max_length=4
    )
    """About what its user gets mail; of an array one about all of it, with ARRAY_TASKS one about each element."""
    mail_user: Annotated[str, in_schema(pattern=ADDRESS), AfterValidator(checked_address)] | None = None
    """The address, instead of its user's."""
    queue: QueueName | None = None
    """Of the service's queues; by default that of its label partition, else the default one."""
    labels: dict[Label, Text] = Field(default_factory=dict, max_length=100)
    resources: dict[ResourceName, Annotated[int, Field(ge=1, le=MOST_UNITS), WHOLE]] = Field(
        default_factory=dict, max_length=100
    )
    """Of what the service counts besides machines, such as licences: of the job as a whole."""
    require: NodeLabels = Field(default_factory=dict)
    """Labels that its nodes must have: a mapping, or ["zone=a"]."""

    @field_validator("command")
    @classmethod
    def _has_program(cls, command: list[str]) -> list[str]:
        if not command[0]:
            raise ValueError("the program's name is empty")
        return command

    @field_validator("workdir", "checkpoint_dir", "venv")
    @classmethod
    def _absolute(cls, path: str | None) -> str | None:
        if path is not None and not path.startswith("/"):
            raise ValueError(f"{path!r} is not an absolute path")
        return path

    @field_validator("upload")
    @classmethod
    def _number(cls, upload: str | None) -> str | None:
        if upload is not None and not re.fullmatch(SHA256, upload):
            raise ValueError(
                f"{upload[:80]!r} is no SHA-256 of a directory that was sent; `betimes submit --upload DIR` sends "
                "one, and so does `upload` of the Python client"
            )
        return upload

    @field_validator("env")
    @classmethod
    def _names(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if "=" in name or name.startswith("BETIMES_"):
                raise ValueError(f"{name!r} cannot be set: no '=' in a name, and BETIMES_* is the service's")
        return env

    @field_validator("curve")
    @classmethod
    def _known_curve(cls, curve: str | Curve) -> str | Curve:
        if isinstance(curve, str):
            try:
                known = parse_formula(curve) is not None
            except CurveError as error:
                raise ValueError(str(error)) from None
            if not known:
                raise ValueError(f"{curve!r} is none of linear, amdahl:F, power:A; or give a table")
        return curve

    @field_validator("array")
    @classmethod
    def _array(cls, array: str | None) -> str | None:
        if array is not None:
            parse_array(array)
        return array

    @field_validator("after")
    @classmethod
    def _after(cls, after: list[str]) -> list[str]:
        for one in after:
            split_after(one)
        return after

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.min_units > self.max_units:
            raise ValueError(f"min_units {self.min_units} is more than max_units {self.max_units}")
        if isinstance(self.units_per_task, int) and self.max_units % self.units_per_task:
            fitting = [str(k) for k in range(1, self.max_units + 1) if self.max_units % k == 0][:MOST_NAMED]
            raise ValueError(
                f"units_per_task {self.units_per_task} does not divide max_units {self.max_units}, and the tasks of a "
                f"job are equal; give one of {', '.join(fitting)}, or pack"
            )
        if (self.steps is None) != (self.step_s is None):
            raise ValueError("steps and step_s go together: so many steps of so many seconds each")
        if self.steps is not None and self.estimate_s is not None:
            raise ValueError("an estimate is either estimate_s, or steps and step_s")
        if self.runtime_estimate_s > MOST_SECONDS:
            raise ValueError(
                f"steps times step_s is {self.runtime_estimate_s:g} s; a job runs at most {MOST_SECONDS:g} s"
            )
        if not self.requeue and self.max_units > self.min_units:
            raise ValueError(
                "requeue: a job that may not be started again cannot be resized either; give it as many max_units as "
                "min_units, or leave requeue out"
            )
        if self.upload is not None and self.workdir is not None:
            raise ValueError(
                "upload and workdir exclude each other: a job runs at the top of its copy of the directory; leave one "
                "of them out"
            )
        if len(named := [each for each in ("conda", "venv", "image") if getattr(self, each) is not None]) > 1:
            raise ValueError(f"{' and '.join(named)} exclude each other; leave all but one of them out")
        if self.as_one:
            self._check_as_one()
        if not self.demand and not any(self.unit.everywhere):
            raise ValueError("a unit needs something of cpu, gpu or memory_gib; give one of them more than 0")
        for family, needed in self.unit.by_family:
            if not any(needed):
                raise ValueError(f"demand.{family}: a unit needs something of cpu, gpu or memory_gib there")
        return self

    def _check_as_one(self) -> None:
        if self.array is None:
            raise ValueError("as_one is for an array; say of which elements, as in array 1-20")
        if self.max_units > 1:
            raise ValueError(
                "as_one gives every element one unit, so leave units out; at most 4 at once is array 1-20%4"
            )
        if self.resources:
            raise ValueError(
                "as_one shares units between its elements, and no resources; leave one of them out"
            )
        if self.curve != LINEAR:
            raise ValueError("as_one makes an array as fast as it has units, so leave the curve out")

    @property
    def title(self) -> str:
        """The name: as given, or the program's."""
        return self.name or self.command[0].rsplit("/", 1)[-1]

    @property
    def history_key(self) -> str:
        """The key of its run times: the given name, else the command and the directory it runs in."""
        if self.name is not None:
            return self.name
        what = json.dumps([self.command, self.workdir, self.upload])
        return f"{self.title} {hashlib.sha256(what.encode()).hexdigest()}"

    @property
    def task_choice(self) -> int:
        """`units_per_task` as `cluster.tasks` has it."""
        from betimes.cluster.tasks import PACK, SPREAD  # clients have no NumPy

        choice = self.units_per_task
        return {"pack": PACK, "spread": SPREAD}[choice] if isinstance(choice, str) else choice

    @property
    def unit(self) -> UnitDemand:
        """The demand of a unit, on all machines or on each family."""
        if not self.demand:
            return UnitDemand((self.gpu, self.cpu, self.memory_gib))
        return UnitDemand(
            (self.gpu, self.cpu, self.memory_gib),
            tuple(
                (
                    family,
                    (
                        self.gpu if on.gpu is None else on.gpu,
                        self.cpu if on.cpu is None else on.cpu,
                        self.memory_gib if on.memory_gib is None else on.memory_gib,
                    ),
                )
                for family, on in sorted(self.demand.items())
            ),
            tuple(on.speed for _, on in sorted(self.demand.items()))
            if any(on.speed != 1.0 for on in self.demand.values())
            else (),
        )

    @property
    def required(self) -> Labels:
        """The labels that its nodes must have, sorted."""
        return tuple(sorted(self.require.items()))

    @property
    def runtime_estimate_s(self) -> float:
        """The run time that the submitter expects on max_units, s; NaN: none given."""
        if self.steps is not None and self.step_s is not None:
            return self.steps * self.step_s
        return math.nan if self.estimate_s is None else self.estimate_s


def parse_array(text: str) -> tuple[list[int], int]:
    """`1-100%10`, `0,3,8-20:4`: the indices in order, and how many may run at once (0: any number)."""
    found = _ARRAY.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r} is not an array; write indices as in 1-100, 0,3,8-20:4 or 1-100%10 (at most 10 at once)"
        )
    indices: set[int] = set()
    for part in found["indices"].split(","):
        indices.update(_indices(text, part))
        if len(indices) > MOST_ELEMENTS:
            raise _too_many(text)
    most = int(found["most"]) if found["most"] is not None else 0
    if found["most"] is not None and most < 1:
        raise ValueError(f"{text!r}: at least one element must be allowed to run")
    return sorted(indices), most


def _indices(text: str, part: str) -> Iterator[int]:
    found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part)
    if found is None:
        raise ValueError(f"{part!r} is neither an index nor a range")
    first = int(found[1])
    last, step = int(found[2] or first), int(found[3] or 1)
    if last < first or step < 1:
        raise ValueError(f"{part!r} is an empty range; write the smaller index first, as in 1-5 or 1-9:2")
    if (last - first) // step >= MOST_ELEMENTS:
        raise _too_many(text)
    return iter(range(first, last + 1, step))


def slurm_variables(array: str, indices: Sequence[int]) -> dict[str, str]:
    """The variables of an array's elements in a batch script; Slurm's step is the first that is written."""
    step = re.search(r":(\d+)", array)
    known = {
        "COUNT": len(indices), "MIN": indices[0], "MAX": indices[-1], "STEP": int(step[1]) if step else 1,
    }  # fmt: skip
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in known.items()}


def _too_many(text: str) -> ValueError:
    return ValueError(f"{text[:60]!r}: an array has at most {MOST_ELEMENTS} elements")


def split_after(text: str) -> tuple[int | str, str]:
    """`41`, `41:fail`, `prep:any`: the job to wait for, and what of it is waited for (`ON`); alone, that it succeeds.

    A name is that of an earlier job in the same request. Raises ValueError for other texts.
    """
    found = _AFTER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:60]!r}: write a job's number or name, as in 41, 41:any or prep:fail")
    job = found["job"]
    return int(job) if _NUMBER.fullmatch(job) else job, found["on"] or "ok"


def parse_after(text: str) -> tuple[int, str]:
    """The same where names have become numbers already. Raises ValueError for a name."""
    job, on = split_after(text)
    if isinstance(job, str):
        raise ValueError(f"{job[:60]!r} is the name of a job, and not a number")
    return job, on


def set_spec(spec: JobSpec) -> JobSpec:
    """An array that is one job, for the policy: from one unit to as many as it has trials, or may use."""
    indices, most = parse_array(spec.array or "")
    width = min(len(indices), most or len(indices))
    return spec.model_copy(update={"array": None, "as_one": False, "max_units": width})


def trial_spec(spec: JobSpec) -> JobSpec:
    """The job of each of its trials."""
    return spec.model_copy(
        update={
            "array": None,
            "as_one": False,
            "after": [],
            "singleton": False,
            "hold": False,
            "notify": None,
            "mail_type": [],
        }
    )


def trials_of(spec: JobSpec) -> int:
    """The number of trials of an array that is one job."""
    return len(parse_array(spec.array or "")[0])


def full_run_s(trial_s: float, spec: JobSpec) -> float:
    """The run time of the set on all the units that it may use, as if its trials could be divided."""
    return trial_s * trials_of(spec) / set_spec(spec).max_units
