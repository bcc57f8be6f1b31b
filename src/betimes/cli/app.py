"""All verbs as commands of Typer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, cast

import typer
from typer.main import get_command

from betimes import __version__, plugins
from betimes.cli import warm
from betimes.cli.for_typer import (
    CommandAfterDashes,
    VerbCommand,
    VerbGroup,
    for_typer,
    group,
    line_of,
    wants_all,
)
from betimes.cli.live import backup, demo, doctor, service, up
from betimes.cli.simulate import advise, learn_waits, policies, size_fleet, trace, tune
from betimes.cli.verbs import SIMULATE, VERBS, function_of
from betimes.errors import InputError

SECTIONS = {
    "Start": (("up", "open", "down", "demo"), ()),
    "Jobs": (
        ("submit", "quote", "run", "jobs", "job", "logs", "wait", "cancel", "edit"),
        ("attach", "status", "hold", "release", "requeue", "suspend", "resume", "rerun"),
    ),
    "Look": (("what-if", "accuracy", "usage", "events"), ("efficiency",)),
    "Operate": (
        ("nodes", "users", "policy", "fleet", "service", "doctor"),
        ("maintenance", "queues", "slurm"),
    ),
    "Simulate": (SIMULATE, ()),
}
"""The verbs as `betimes --help` lists them: those of daily use with what they do, and others by name."""


class _InSections(VerbGroup):
    """The verbs under headings, with those that other packages add."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(dict.fromkeys([*super().list_commands(ctx), *plugins.added(plugins.VERBS)]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        return found or _added(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in plugins.OF_PAPERS[plugins.VERBS] and self.get_command(ctx, args[0]) is None:
            raise InputError(
                f"there is no verb {args[0]!r}{plugins.or_else(plugins.VERBS, args[0], self.commands)}"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        others = {
            name: entry for name, entry in plugins.added(plugins.VERBS).items() if name not in self.commands
        }
        everything = wants_all(ctx)
        lines = self._lines()
        width = max(map(len, [*(lines if everything else self.commands), *others]))
        for title, (daily, rarer) in SECTIONS.items():
            shown = (
                [name for name in lines if name.split(" ")[0] in (*daily, *rarer)] if everything else daily
            )
            with formatter.section(title):
                rows = [(name.ljust(width), lines[name]) for name in shown]
                names = ", ".join(() if everything else rarer)
                formatter.write_dl([*rows, *([("also".ljust(width), names)] if names else [])])
        if others:
            # Not imported for a list: that may take long, or fail.
            rows = [(name.ljust(width), plugins.about(entry)) for name, entry in others.items()]
            with formatter.section("Of other packages"):
                formatter.write_dl(rows)

    def _lines(self) -> dict[str, str]:
        """What each verb does, in the order of the sections; a group's verbs follow it."""
        lines: dict[str, str] = {}
        for name in (name for daily, rarer in SECTIONS.values() for name in (*daily, *rarer)):
            verb = self.commands[name]
            lines[name] = line_of(verb)
            for second, inner in getattr(verb, "commands", {}).items():
                lines[f"{name} {second}"] = line_of(inner)
        return lines


def _added(name: str) -> Any:
    """The verb of that name of another package, as Typer runs it; null: none has it. Raises BetimesError."""
    entry = plugins.added(plugins.VERBS).get(name)
    if entry is None:
        return None
    return as_command(name, plugins.load(entry))


def as_command(name: str, verb: Callable[..., None] | typer.Typer) -> Any:
    """A verb of another package as Typer runs it."""
    if not isinstance(verb, typer.Typer):
        made = typer.Typer(add_completion=False, rich_markup_mode=None)
        made.command(name, cls=VerbCommand)(for_typer(verb))
        verb = made
    command = get_command(verb)
    command.name = name
    return command


app = typer.Typer(
    name="betimes",
    cls=_InSections,
    help="A batch scheduler that looks ahead: schedules for real traces, and promised completion times.",
    epilog="Every verb takes --json, and exits with 2 and one line on standard error where its input is wrong. "
    "`betimes --help-all` lists all verbs.",
    rich_markup_mode=None,  # Rich would cost half of the start-up
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"betimes {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def betimes(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 (its callback acts)
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A batch scheduler that looks ahead: schedules for real traces, and promised completion times."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def _add(name: str, short_help: str, verb: Callable[..., None]) -> None:
    app.command(name, short_help=short_help, cls=VerbCommand)(for_typer(verb))


_add("up", "Start the service: run jobs on this machine.", up.up)
_add("demo", "See a service run three jobs, and go on with it.", demo.demo)
_add("doctor", "Check the service, and a Ray cluster that is to run jobs.", doctor.doctor)


def _slurm(context: typer.Context) -> None:
    """Use the service by Slurm's commands."""
    if context.invoked_subcommand is None:
        print(context.get_help())


_groups = {
    "service": group("service", "Have systemd run the service; its settings and backups.", service.status),
    "slurm": typer.Typer(cls=VerbGroup, callback=_slurm, invoke_without_command=True),
}
for _name, _verb in VERBS.items():
    _function = function_of(_verb)
    _first, _, _second = _name.partition(" ")
    if _second:
        _groups[_first].command(_second, cls=VerbCommand)(for_typer(_function))
    elif any(other.startswith(f"{_name} ") for other in VERBS):
        _groups[_name] = group(_name, _verb.help, _function)
    else:
        _kind = CommandAfterDashes if _name in ("submit", "quote", "run") else VerbCommand
        app.command(_name, short_help=_verb.help, cls=_kind)(for_typer(_function))
_add("advise", "Find out which policy suits the jobs of the last days.", advise.advise)
_add("tune", "Find the configurations of wfq that are worth having.", tune.tune)
_add("policies", "List the policies, or show one.", policies.policies)
for _first, _second, _function in (
    ("service", "install", service.install),
    ("service", "uninstall", service.uninstall),
    ("service", "status", service.status),
    ("service", "config", up.show_config),
    ("service", "backup", backup.backup),
    ("service", "restore", backup.restore),
    ("service", "warm", warm.warm),
    ("policy", "learn-waits", learn_waits.learn_waits),
    ("fleet", "size", size_fleet.size_fleet),
):
    _groups[_first].command(_second, cls=VerbCommand)(for_typer(_function))
for _name, _group in {**_groups, "trace": trace.verbs}.items():
    app.add_typer(_group, name=_name)


@cache
def command() -> VerbGroup:
    """All of it as Typer runs it, which takes 0.05 s to make."""
    return cast("VerbGroup", get_command(app))
