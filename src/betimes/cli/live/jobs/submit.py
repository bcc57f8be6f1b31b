"""`betimes submit` and `betimes quote`: hand over jobs and print the promise, or only ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from betimes.cli import options
from betimes.cli.live.connection import State
from betimes.cli.live.jobs.job_options import given_fields, spec_from, with_job_options, wrong_option
from betimes.errors import InputError

if TYPE_CHECKING:
    from betimes.client import Client
    from betimes.service.spec.job_spec import JobSpec
    from betimes.service.views.models import JobView, Quote, Submitted, Uploaded

_COMMAND = "betimes.command"


class CommandAfterDashes(TyperCommand):
    """A verb whose arguments behind `--` are a command of their own, options and all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep what is behind the first `--` for the verb, and parse what is before it."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = args[at + 1 :]
            args = args[:at]
        elif args and not ctx.resilient_parsing:
            self._check(args)
        return super().parse_args(ctx, args)

    def _check(self, args: list[str]) -> None:
        """A user who forgets the dashes should read that, not that `train.py` has an option too many."""
        taking = {flag for p in self.params for flag in (*p.opts, *p.secondary_opts) if _takes_value(p)}
        skip = False
        for number, word in enumerate(args):
            if skip or word.startswith("-"):
                skip = not skip and word in taking
            elif not word.endswith(_SUFFIXES):
                import shlex

                raise InputError(
                    f"{word[:40]!r} is no job file ({', '.join(_SUFFIXES)}); put -- before a command: "
                    f"betimes {self.name} {shlex.join([*args[:number], '--', *args[number:]])}"
                )


_SUFFIXES = (".toml", ".yaml", ".yml")


def _takes_value(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not getattr(parameter, "is_flag", False)


File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE | -- COMMAND",
        help="A file of jobs (.toml, .yaml), or behind two dashes the program and its arguments.",
        show_default=False,
    ),
]


@with_job_options
def submit(
    context: typer.Context,
    job: dict[str, Any],
    file: File = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all are over; exit with 1 if one did not finish well.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="TEXT",
            help="Submitting again under the same key gives the same jobs, not new ones.",
            show_default=False,
        ),
    ] = None,
    state: State = None,
    as_json: options.Json = False,
) -> None:
    """Submit a command, or the jobs of a file, and print what is promised: when it starts, and when it is done.

    Options given beside a FILE hold for all of its jobs.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.wait import say_and_judge, wait_for
    from betimes.cli.render.as_json import print_json

    asked = _asked(context, file, job)
    with connect(state) as service:
        uploads = _send([folder for _, folder in asked if folder is not None], service, silent=as_json)
        specs = [_in_copy(spec, uploads.get(folder)) for spec, folder in asked]
        submitted = [service.submit(specs[0], key=key)] if file is None else service.submit(specs, key=key)
        job_ids = [each for one in submitted for each in one.job_ids]
        if not as_json:
            _show(specs, submitted)
        over = wait_for(service, job_ids) if wait else None
    if as_json:
        print_json(_answer(submitted, job_ids, list(uploads.values()), over))
    if over is not None:
        say_and_judge(over, silent=as_json)


@with_job_options
def quote(
    context: typer.Context,
    job: dict[str, Any],
    file: File = None,
    state: State = None,
    as_json: options.Json = False,
) -> None:
    """Say when a job would start and be done, and what it would cost, without submitting it."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.jobs import note_pair, quote_pairs
    from betimes.cli.render.tables import say, show_pairs
    from betimes.cli.render.times import now

    asked = _asked(context, file, job)
    if len(asked) > 1:
        raise InputError(f"{file}: holds {len(asked)} jobs; a quote is for one, so name a file with one")
    spec, folder = asked[0]
    if folder is not None:  # nothing is sent for it: where it is, the job could run as well
        spec = spec.model_copy(update={"upload": None, "workdir": str(folder)})
    with connect(state) as service:
        promise = service.quote(spec)
    if as_json:
        print_json(promise)
        return
    say(f"{spec.title}, if it were submitted now")
    show_pairs([*quote_pairs(promise, _widest(spec), now(promise.made_at)), *note_pair(promise)])


def _widest(spec: JobSpec) -> int:
    """Units that the job may hold at once."""
    from betimes.service.scheduling.trials.trial_set import set_spec

    return set_spec(spec).max_units if spec.as_one else spec.max_units


def _send(folders: Sequence[Path], service: Client, *, silent: bool) -> dict[Path | None, Uploaded]:
    """Send directories, each once, and say so."""
    from betimes.cli.render.jobs import file_size
    from betimes.cli.render.tables import say

    sent: dict[Path | None, Uploaded] = {}
    for folder in dict.fromkeys(folders):
        found = sent[folder] = service.upload(folder)
        if not silent:
            how = "sent" if found.sent else "there already"
            files = f"{found.files:,} file{'' if found.files == 1 else 's'}"
            say(f"Upload {folder}: {files}, {file_size(found.bytes)}, {how}")
    return sent


def _in_copy(spec: JobSpec, upload: Uploaded | None) -> JobSpec:
    return spec if upload is None else spec.model_copy(update={"upload": upload.sha256})


def _asked(
    context: typer.Context, file: str | None, job: dict[str, Any]
) -> list[tuple[JobSpec, Path | None]]:
    """The jobs that are meant, and the directory that has to be sent for each. Raises InputError."""
    command = context.meta.get(_COMMAND)
    if (file is None) == (command is None):
        usage = (
            f"betimes {context.info_name} [OPTIONS] -- COMMAND..., or betimes {context.info_name} FILE.toml"
        )
        both = f"{file} and a command are given; one of them is enough" if file else "no job is given"
        raise InputError(f"{context.info_name}: {both}: {usage}")
    from betimes.service.spec.job_file import directory_of, read_drafts, specs_of
    from betimes.service.spec.pipelines import unknown_names

    fields = given_fields(job)
    if file is None:
        if not command:
            raise InputError(f"{context.info_name}: no command stands behind the dashes; name a program")
        spec = spec_from({**fields, "command": command})
        for _, why in unknown_names([spec]):
            raise InputError(f"--after: {why}")
        return [(spec, directory_of(fields))]
    from pydantic import ValidationError

    drafts = read_drafts(Path(file))
    try:
        specs = specs_of(drafts, **fields)
    except ValidationError as error:
        raise wrong_option(error) from None
    return [(spec, draft.directory(**fields)) for spec, draft in zip(specs, drafts, strict=True)]


def _answer(
    submitted: Sequence[Submitted], job_ids: list[int], uploads: list[Uploaded], over: list[JobView] | None
) -> dict[str, Any]:
    """One shape for a command, an array and a file; `quote` is that of the last to finish."""
    answer: dict[str, Any] = {
        "job_id": job_ids[0],
        "job_ids": job_ids,
        "quote": _last(submitted),
        "submitted": list(submitted),
    }
    if uploads:
        answer["uploads"] = uploads
    return answer if over is None else {**answer, "jobs": over}


def _last(submitted: Sequence[Submitted]) -> Quote | None:
    """The promise for all of them: that of the last to finish; None where one of them has none."""
    quotes = [one.quote for one in submitted]
    known = [each for each in quotes if each is not None and each.finish_at is not None]
    if len(known) == len(quotes):
        return max(known, key=lambda each: each.finish_at or 0.0)
    return next((each for each in quotes if each is not None and each.finish_at is None), None)


def _show(specs: Sequence[JobSpec], submitted: Sequence[Submitted]) -> None:
    from betimes.cli.render.jobs import no_promise, promise_pairs, starts, title, usd
    from betimes.cli.render.tables import Column, say, show, show_pairs
    from betimes.cli.render.times import both, length, now

    at_now = now(max((one.quote.made_at for one in submitted if one.quote is not None), default=None))
    if len(submitted) == 1:
        say(title(submitted[0].job_ids, specs[0].title))
        show_pairs(promise_pairs(submitted[0], _widest(specs[0]), at_now))
        return
    columns = (
        Column("Jobs"),
        Column("Name", flexible=True),
        Column("Starts"),
        Column("Done"),
        Column("Run time", rank=1, right=True),
        Column("Cost", rank=2, right=True),
        Column("Why it waits", rank=3, flexible=True),
    )
    rows = []
    for spec, one in zip(specs, submitted, strict=True):
        number = title(one.job_ids, "").split(" ", 1)[1].rstrip(", ")
        if one.quote is None:
            rows.append([number, spec.title, "-", "-", "", "", no_promise(one)])
            continue
        promise = one.quote
        why = promise.reason.text if promise.reason is not None else ""
        begin = "never" if promise.start_at is None else starts(promise, at_now)
        end = both(promise.finish_at, at_now)
        rows.append([number, spec.title, begin, end, length(promise.run_s), usd(promise.cost_usd), why])
    show(columns, rows)
    for note in dict.fromkeys(one.note for one in submitted if one.note is not None):
        say(note)
