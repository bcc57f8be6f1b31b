"""The most used verbs: their modules, the declarations of their parameters, and a quick way to run one.

`app` makes commands of Typer from the same declarations, for help, completion and messages about mistakes. Loading
Typer takes longer than such a verb runs, so that a call without mistakes is run without Typer.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Option:
    """Declares an option: its flags and Typer's other arguments; required: its parameter has no default."""

    def __init__(self, *flags: str, required: bool = False, **settings: Any) -> None:
        self.flags, self.required, self.settings = flags, required, settings


class Argument:
    """Declares an argument by Typer's arguments for it."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings


class AfterDashes:
    """Declares the words behind the first `--`, a command with its options; None: there are no dashes."""


class Several:
    """Declares a table of options, by name; the verb gets a table of their values."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options


Json = Annotated[bool, Option("--json", help="Print JSON on standard output, and nothing else there.")]
Output = Annotated[
    Literal["wide"] | None,
    Option(
        "--output",
        "-o",
        metavar="wide",
        help="wide: tables with all columns, and no text cut, however narrow the terminal is.",
        show_default=False,
    ),
]
State = Annotated[
    str | None,
    Option(
        "--service",
        metavar="DIR",
        help="Which service to use, by its state directory (default: $BETIMES_URL, then $BETIMES_STATE, then "
        "~/.local/state/betimes).",
        show_default=False,
    ),
]


class Verb(NamedTuple):
    """A verb's module and function, and its line in a list of verbs; None: the first line of its help."""

    module: str
    function: str
    help: str | None = None


_JOBS, _MACHINES, _POLICY = (f"betimes.cli.live.{package}" for package in ("jobs", "machines", "policy"))
VERBS = {
    "submit": Verb(f"{_JOBS}.submit", "submit", "Submit a command or a file of jobs."),
    "quote": Verb(f"{_JOBS}.submit", "quote", "Ask when a job would be done."),
    "run": Verb(f"{_JOBS}.run", "run", "Submit a command, print its output, and exit as it does."),
    "attach": Verb(f"{_JOBS}.run", "attach", "Print what a job prints from now on, and exit as it does."),
    "jobs": Verb(f"{_JOBS}.jobs", "jobs", "List jobs."),
    "status": Verb(f"{_JOBS}.jobs", "status", "Print the status of jobs, a word each."),
    "job": Verb(f"{_JOBS}.job", "job", "Tell the story of a job."),
    "logs": Verb(f"{_JOBS}.logs", "logs", "Print what a job has printed."),
    "wait": Verb(f"{_JOBS}.wait", "wait", "Wait until jobs are over."),
    "cancel": Verb(f"{_JOBS}.control", "cancel", "Cancel jobs."),
    "hold": Verb(f"{_JOBS}.control", "hold", "Keep waiting jobs from starting."),
    "release": Verb(f"{_JOBS}.control", "release", "Let held jobs start again."),
    "requeue": Verb(f"{_JOBS}.control", "requeue", "Stop jobs that run, and start them again."),
    "suspend": Verb(f"{_JOBS}.control", "suspend", "Let jobs that run stand still, with their units."),
    "resume": Verb(f"{_JOBS}.control", "resume", "Let suspended jobs go on."),
    "rerun": Verb(f"{_JOBS}.rerun", "rerun", "Submit jobs again."),
    "edit": Verb(f"{_JOBS}.edit", "edit", "Change jobs that are not over."),
    "nodes": Verb(f"{_MACHINES}.nodes", "list_nodes", "List the machines, add some, or take one out of use."),
    "nodes list": Verb(f"{_MACHINES}.nodes", "list_nodes"),
    "nodes add": Verb(f"{_MACHINES}.nodes", "add"),
    "nodes drain": Verb(f"{_MACHINES}.nodes", "drain"),
    "nodes undrain": Verb(f"{_MACHINES}.nodes", "undrain"),
    "queues": Verb(f"{_MACHINES}.queues", "queues", "List the queues: their nodes, defaults and limits."),
    "maintenance": Verb(
        f"{_MACHINES}.maintenance",
        "list_windows",
        "Keep jobs off machines that are to be worked on, in time.",
    ),
    "maintenance list": Verb(f"{_MACHINES}.maintenance", "list_windows"),
    "maintenance add": Verb(f"{_MACHINES}.maintenance", "add"),
    "maintenance remove": Verb(f"{_MACHINES}.maintenance", "remove"),
    "policy": Verb(f"{_POLICY}.policy", "show", "Show the policy in force, or put another in its place."),
    "policy show": Verb(f"{_POLICY}.policy", "show"),
    "policy set": Verb(f"{_POLICY}.policy", "put"),
    "policy front": Verb(f"{_POLICY}.policy", "front"),
    "policy portfolio": Verb(f"{_POLICY}.portfolio", "portfolio"),
    "users": Verb(
        "betimes.cli.live.users", "list_users", "List who shares the service, add users, and set limits."
    ),
    "users list": Verb("betimes.cli.live.users", "list_users"),
    "users add": Verb("betimes.cli.live.users", "add"),
    "users set": Verb("betimes.cli.live.users", "change"),
    "users groups": Verb("betimes.cli.live.users", "list_groups"),
    "users disable": Verb("betimes.cli.live.users", "disable"),
    "users token": Verb("betimes.cli.live.users", "make_token"),
    "users tokens": Verb("betimes.cli.live.users", "list_tokens"),
    "users revoke": Verb("betimes.cli.live.users", "revoke"),
    "fleet": Verb(f"{_MACHINES}.fleet", "fleet", "Show the rented machines, their cost and the plan."),
    "fleet plan": Verb(f"{_MACHINES}.fleet", "plan"),
    "fleet release": Verb(f"{_MACHINES}.fleet", "release"),
    "fleet doctor": Verb(f"{_MACHINES}.fleet", "doctor"),
    "down": Verb(f"{_MACHINES}.fleet", "down", "Stop the service; running jobs go on."),
    "open": Verb(
        "betimes.cli.live.connection", "open_page", "Open the service's pages in a browser, signed in."
    ),
    "what-if": Verb("betimes.cli.live.what_if", "what_if", "Show who would finish when after a change."),
    "accuracy": Verb("betimes.cli.live.accuracy", "accuracy", "Show how well promises held."),
    "usage": Verb("betimes.cli.live.usage", "usage", "Show what jobs used."),
    "efficiency": Verb("betimes.cli.live.usage", "efficiency", "Show what a job used of what it asked for."),
    "events": Verb("betimes.cli.live.events", "events", "Print what happened and what was decided."),
    "slurm commands": Verb("betimes.cli.slurm", "slurm_commands"),
    "service client-file": Verb("betimes.cli.client_file", "client_file"),
    "simulate": Verb("betimes.cli.simulate.simulate", "simulate", "Run a workload under a policy."),
    "compare": Verb(
        "betimes.cli.simulate.compare", "compare", "Run a workload under several policies, side by side."
    ),
}
"""By the words that call the verb; a group's name alone stands for its default verb."""

OTHER_WORDS = {
    **dict.fromkeys(("ps", "ls", "queue"), "jobs"),  # as people try them first
    # Until 0.1.0 these stood beside all other verbs.
    **{verb: f"service {verb}" for verb in ("config", "backup", "restore", "warm", "client-file")},
    "portfolio": "policy portfolio",
    "learn-waits": "policy learn-waits",
    "size-fleet": "fleet size",
    "slurm-commands": "slurm commands",
}
"""Other words for verbs, by the first word of a call."""

BY_STATUS = ("jobs", "cancel", "hold", "release", "requeue", "suspend", "resume")
"""Verbs that take jobs by their status."""
SIMULATE = ("advise", "simulate", "compare", "policies", "tune", "trace")
"""Verbs that work in this process alone, with compiled code."""


def with_verb(words: Sequence[str]) -> list[str]:
    """The words of a call with the verb's and the options' own names; `help VERB` is `VERB --help`."""
    if not words:
        return []
    first, *rest = words
    if first == "help":
        return with_verb([*rest, "--help"])
    dashes = rest.index("--") if "--" in rest else len(rest)
    verb = OTHER_WORDS.get(first, first)
    following = [*rest[1:dashes], ""]
    options = [_with_new_name(verb, *each) for each in zip(rest[:dashes], following, strict=False)]
    return [*verb.split(" "), *options, *rest[dashes:]]


def _with_new_name(verb: str, word: str, following: str) -> str:
    """An option's word of today: the folder of a service was --state until 0.1.0, but a state is a job's."""
    name, equals, value = word.partition("=")
    if name != "--state":
        return word
    given = value if equals else following
    is_folder = given.startswith((".", "~")) or os.sep in given or os.path.isdir(given)  # noqa: PTH112 (quick)
    return f"{'--service' if is_folder or verb not in BY_STATUS else '--status'}{equals}{value}"


def function_of(verb: Verb) -> Callable[..., None]:
    """The function that carries a verb out."""
    return getattr(import_module(verb.module), verb.function)


def quick(words: Sequence[str]) -> Callable[[], None] | None:
    """A function that runs a call of one of `VERBS`; None: for Typer, as it is another verb or not plainly correct."""
    verb = VERBS.get(" ".join(words[:2]))
    rest = words[2:]
    if verb is None or len(words) < 2:
        verb, rest = VERBS.get(words[0]) if words else None, words[1:]
    if verb is None or "_BETIMES_COMPLETE" in os.environ:
        return None
    function = function_of(verb)
    values = _parsed(parameters_of(function), rest)
    return None if values is None else lambda: function(**values)


class _Parameter(NamedTuple):
    """A parameter of a verb; `table`: the parameter that collects it in a table."""

    name: str
    kind: Any
    declaration: Any
    table: str


def parameters_of(function: Callable[..., None]) -> list[_Parameter]:
    """The parameters of a verb, with those of its tables."""
    found: list[_Parameter] = []
    # Of a function itself, a Python before 3.11 (the client's file) makes Optional what has None as default.
    declared = SimpleNamespace(__annotations__=function.__annotations__)
    for name, annotation in get_type_hints(declared, function.__globals__, include_extras=True).items():
        if name == "return":
            continue
        kind, declaration = annotation.__origin__, annotation.__metadata__[0]
        if isinstance(declaration, Several):
            options = declaration.options.items()
            found += [_Parameter(n, each.__origin__, each.__metadata__[0], name) for n, each in options]
        else:
            found.append(_Parameter(name, kind, declaration, ""))
    return found


def _parsed(parameters: Sequence[_Parameter], words: Sequence[str]) -> dict[str, Any] | None:
    """The values of parameters given by words; None: the words are not plainly correct, as with `--help`."""
    values: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.table:
            values.setdefault(parameter.table, {})[parameter.name] = None
        elif isinstance(parameter.declaration, AfterDashes):
            at = words.index("--") if "--" in words else len(words)
            values[parameter.name] = list(words[at + 1 :]) if at < len(words) else None
            words = words[:at]
    by_flag = {
        flag: (parameter, flag is flags[0])
        for parameter in parameters
        if isinstance(parameter.declaration, Option)
        for spelt in parameter.declaration.flags
        for flags in [spelt.split("/")]
        for flag in (flags if single(parameter.kind) is bool else [spelt])
    }
    rest: list[str] = []
    left = iter(words)
    takes_command = any(isinstance(parameter.declaration, AfterDashes) for parameter in parameters)
    try:
        for word in left:
            if not word.startswith("-") or word == "-":
                if takes_command and not is_script(word):  # a file of jobs, slow anyway, or forgotten dashes
                    return None
                rest.append(word)
                continue
            name, equals, text = word.partition("=")
            parameter, is_yes = by_flag[name]
            kind = single(parameter.kind)
            if kind is bool:
                if equals:
                    return None
                value: Any = is_yes
            else:
                if not equals:
                    text = next(left)
                if (equals and not name.startswith("--")) or text.startswith("-"):
                    return None
                value = _value(kind, parameter.declaration, text)
            target = values.setdefault(parameter.table, {}) if parameter.table else values
            if _is_many(kind):
                target[parameter.name] = [*(target.get(parameter.name) or ()), value]
            else:
                target[parameter.name] = value
        for parameter in (each for each in parameters if isinstance(each.declaration, Argument)):
            kind = single(parameter.kind)
            taken = rest if _is_many(kind) else rest[:1]
            rest = rest[len(taken) :]
            if taken:
                texts = [_value(kind, parameter.declaration, text) for text in taken]
                values[parameter.name] = texts if _is_many(kind) else texts[0]
            elif kind is parameter.kind:  # the parameter cannot be None
                return None
    except (KeyError, StopIteration, ValueError):
        return None
    lacks = any(
        p.name not in values
        for p in parameters
        if isinstance(p.declaration, Option) and p.declaration.required
    )
    return None if rest or lacks else values


def is_script(path: str) -> bool:
    """Whether a file begins as scripts do; what cannot be read is left to the verb, if it exists."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (pathlib is not loaded for every verb)
            return file.read(2) == b"#!"
    except FileNotFoundError:
        return False
    except OSError:
        return True


def single(kind: Any) -> Any:
    """The type of a parameter without `| None`."""
    return (
        next((each for each in getattr(kind, "__args__", ()) if each is not type(None)), kind)
        if (type(None) in getattr(kind, "__args__", ()))
        else kind
    )


def _is_many(kind: Any) -> bool:
    return getattr(kind, "__origin__", None) is list


def _value(kind: Any, declaration: Any, text: str) -> Any:
    """The value of a text. Raises ValueError."""
    if getattr(kind, "__origin__", None) is Literal:
        if text not in kind.__args__:
            raise ValueError
        return text
    if kind not in (int, float):
        return text
    value = kind(text)
    if not declaration.settings.get("min", value) <= value <= declaration.settings.get("max", value):
        raise ValueError
    return value
