"""Verbs for Typer, with its options and arguments made from the declarations in `verbs`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from betimes.cli.daily_options import DAILY
from betimes.cli.verbs import AfterDashes, Argument, Option, Several, is_script
from betimes.errors import InputError

_COMMAND = "betimes.command"
_ALL, _HELP_ALL = "betimes.help-all", "--help-all"
_MOST_CHARACTERS = 200  # of a verb's line in a list
_CONTEXT = inspect.Parameter("typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


class VerbCommand(TyperCommand):
    """A verb, whose --help shows the options of daily use, and whose --help-all shows all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help where --help-all asks for it, as --help does."""
        return super().parse_args(ctx, _asking_for_help(ctx, args, _HELP_ALL in args))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options under their headings."""
        arguments: list[tuple[str, str]] = []
        daily = DAILY.get(str(self.name), {})
        options: dict[str, list[tuple[str, str]]] = {heading: [] for heading in daily}
        headings = {flag: heading for heading, flags in daily.items() for flag in flags}
        others = options.setdefault("Other options" if headings else "Options", [])
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                heading = headings.get(parameter.opts[0])
                (arguments if is_argument else options[heading] if heading else others).append(record)
        if headings and not wants_all(ctx):
            others[:] = [(_HELP_ALL, f"Show all options: these, and {len(others)} more.")]
        for title, records in {"Arguments": arguments, **options}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class VerbGroup(TyperGroup):
    """Verbs of two words, each with its line in the help of the first word."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Print the help where --help-all stands before a verb, as --help does."""
        return super().parse_args(ctx, _asking_for_help(ctx, args, args[:1] == [_HELP_ALL]))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write all verbs, none of their lines cut off."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, line_of(verb)) for name, verb in self.commands.items()])


def line_of(verb: Any) -> str:
    """What a verb does, as a list of verbs says it."""
    return verb.get_short_help_str(_MOST_CHARACTERS)


def wants_all(ctx: Any) -> bool:
    """Whether --help-all asks for the help."""
    return _ALL in ctx.meta


def _asking_for_help(ctx: Any, args: list[str], for_all: bool) -> list[str]:
    """The words of a call, those of the help where --help-all asks for it."""
    if not for_all:
        return args
    ctx.meta[_ALL] = True
    return ["--help"]


class CommandAfterDashes(VerbCommand):
    """A verb whose arguments behind `--` are a command with its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the words behind the first `--` for the verb, and parse those before it."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        elif args and not ctx.resilient_parsing:
            self._check(args)
        return super().parse_args(ctx, args)

    def _check(self, args: list[str]) -> None:
        """Report forgotten dashes, instead of an unknown option of `train.py`."""
        from betimes.cli.live.jobs.submit import SUFFIXES, with_dashes

        taking = {flag for p in self.params for flag in (*p.opts, *p.secondary_opts) if _takes_value(p)}
        skip = False
        for number, word in enumerate(args):
            if skip or word.startswith("-"):
                skip = not skip and word in taking
            elif not word.endswith(SUFFIXES) and not is_script(word):
                raise InputError(
                    f"{word[:40]!r} is neither a job file ({', '.join(SUFFIXES)}) nor a script (its first line is "
                    "#!/bin/bash or the like); put -- before a command: "
                    f"{with_dashes(str(self.name), args[:number], args[number:])}"
                )


def _takes_value(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not getattr(parameter, "is_flag", False)


def for_typer(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with Typer's declarations; it takes the words behind dashes from the context."""
    declared = inspect.signature(verb, eval_str=True).parameters
    made: list[inspect.Parameter] = []
    tables: dict[str, list[str]] = {}
    behind: list[str] = []
    for name, parameter in declared.items():
        declaration: Any = next(iter(getattr(parameter.annotation, "__metadata__", ())), None)
        if isinstance(declaration, AfterDashes):
            behind.append(name)
            made.append(_CONTEXT)
        elif isinstance(declaration, Several):
            tables[name] = list(declaration.options)
            made += [
                inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_typed(one))
                for each, one in declaration.options.items()
            ]
        else:
            annotation = _typed(parameter.annotation)
            made.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=annotation))

    def command(**values: Any) -> None:
        for name, options in tables.items():
            values[name] = {each: values.pop(each) for each in options}
        for name in behind:
            values[name] = values.pop(_CONTEXT.name).meta.get(_COMMAND)
        verb(**values)

    command.__name__ = verb.__name__
    _declare(command, verb.__doc__, made)
    return command


def _typed(annotation: Any) -> Any:
    """A type annotated for Typer."""
    declaration: Any = next(iter(getattr(annotation, "__metadata__", ())), None)
    if isinstance(declaration, Option):
        return Annotated[annotation.__origin__, typer.Option(*declaration.flags, **declaration.settings)]
    if isinstance(declaration, Argument):
        return Annotated[annotation.__origin__, typer.Argument(**declaration.settings)]
    return annotation


def group(name: str, text: str | None, verb: Callable[..., None]) -> typer.Typer:
    """Verbs of two words, with the verb that the first word calls alone."""
    alone = for_typer(verb)
    options = inspect.signature(alone).parameters
    declared = inspect.signature(verb, eval_str=True).parameters.values()
    *most, last = (parameter.annotation.__metadata__[0].flags[0] for parameter in declared)

    def first(**values: Any) -> None:
        context = values.pop(_CONTEXT.name)
        if context.invoked_subcommand is None:
            alone(**values)
        elif any(values[each] != option.default for each, option in options.items()):
            second = f"betimes {name} {context.invoked_subcommand}"
            raise InputError(f"{name}: give {', '.join(most)} and {last} behind the verb: {second} ...")

    _declare(first, text, [_CONTEXT, *options.values()])
    made = typer.Typer(cls=VerbGroup, help=text, no_args_is_help=False)
    made.callback(invoke_without_command=True)(first)
    return made


def _declare(command: Callable[..., None], text: str | None, parameters: list[inspect.Parameter]) -> None:
    """Give the command this help text and these parameters for Typer to read."""
    command.__doc__ = text
    vars(command)["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
