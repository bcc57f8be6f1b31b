"""`betimes submit` and `betimes quote`: submit jobs and print the promise, or only ask for it.

A job is a table of fields here, as sent to the service, which checks it. Only a file of jobs needs their models.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from betimes.cli.live.jobs.ids import waited_for
from betimes.cli.live.jobs.job_options import Job, given_fields, wrong_option
from betimes.cli.verbs import AfterDashes, Argument, Json, Option, State
from betimes.errors import FieldError, InputError
from betimes.printing import report
from betimes.service.spec.spelling import directory_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from betimes.client.plain import PlainClient
    from betimes.service.views.ends import End
    from betimes.service.views.models import JobView, Quote, Submitted, Uploaded, WhatIfJob

SUFFIXES = (".toml", ".yaml", ".yml")
MOST_LINES = 2000  # of one request
INPUT = "standard input"
MOST_INPUT = 65_536  # bytes; the service takes as many characters of any text
SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "fish", "busybox")

Fields = dict[str, Any]
Command = Annotated[list[str] | None, AfterDashes()]
File = Annotated[
    str | None,
    Argument(
        metavar="FILE | SCRIPT | -- COMMAND",
        help="A file of jobs (.toml, .yaml), a batch script of Slurm, or behind two dashes the program and its "
        "arguments.",
        show_default=False,
    ),
]

By = Annotated[
    str | None,
    Option(
        "--by",
        "--deadline",
        metavar="TIME",
        help="Say how probable it is that the job is done by then: 18:00, tomorrow 9:00, +3h, 2026-11-27T18:00+01:00.",
        show_default=False,
    ),
]
Probability = Annotated[
    float | None,
    Option(
        "--probability",
        metavar="P",
        help="With --by: the probability that a plan must reach, be it to wait or to rent. By default 0.9.",
        show_default=False,
    ),
]


def submit(
    job: Job,
    command: Command = None,
    file: File = None,
    each_line: Annotated[
        str | None,
        Option(
            "--each-line",
            metavar="FILE|-",
            help="Submit a job for every line of a file, or of standard input: a program and its arguments. Empty "
            "lines and those that begin with # are left out.",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        bool, Option("--wait", help="Wait until all are over; exit with 1 if one did not finish well.")
    ] = False,
    key: Annotated[
        str | None,
        Option(
            "--key",
            metavar="TEXT",
            help="Submitting again under the same key gives the same jobs, not new ones.",
            show_default=False,
        ),
    ] = None,
    by: By = None,
    probability: Probability = None,
    id_only: Annotated[
        bool, Option("--id-only", help="Print the jobs' numbers only: 41, or 41-45 of an array, a line each.")
    ] = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Submit a command, or the jobs of a file, and print what is promised: when it starts, and when it is done.

    With --by, how probable it is that the job is done by then; where machines can be rented, also which of waiting and
    renting is the cheapest that reaches --probability, which --rent auto then takes.

    Options given beside a FILE hold for all of its jobs. What is piped into the submission of a command is kept with
    the job, up to 64 KiB of text, and is what the command reads. A batch script of Slurm, which may also come from
    standard input, is read with its #SBATCH lines.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.deadline import as_planned, as_promised, deadline_of, outlook, pairs
    from betimes.cli.live.jobs.wait import say_and_judge
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import show_pairs
    from betimes.cli.render.times import now

    if each_line is not None and (file is not None or command is not None):
        raise InputError("--each-line: a file or a command is given as well; leave one of them out")
    deadline = deadline_of(by, probability)
    if id_only and as_json:
        raise InputError("--id-only: --json prints the numbers, too; leave one of them out")
    asked: list[tuple[Fields, Path | None]] = []
    if each_line is None:
        asked = _asked("submit", command, file, job, _script("submit", command, file))
    _check_one(asked, deadline)
    if command:
        asked = [(fields if "stdin" in fields else with_input(fields), folder) for fields, folder in asked]
    with connect(state, waits=wait) as service:
        uploads = _send(
            [folder for _, folder in asked if folder is not None], service, silent=as_json or id_only
        )
        specs = [_in_copy(fields, uploads.get(folder)) for fields, folder in asked]
        found = None
        if deadline is not None:
            with _options_at_fault():
                found = outlook(service.quote(with_numbers(service, specs[0])), deadline)
            specs = [as_planned(specs[0], found)] if job.get("rent") == "auto" else specs
        if each_line is not None:
            submitted = _submit_lines(service, each_line, job, key)
        elif file is not None and file.endswith(SUFFIXES):
            with _job_at_fault(file, len(specs)):
                submitted = service.submit(specs, key=key)
        else:
            with _options_at_fault():
                submitted = [service.submit(with_numbers(service, specs[0]), key=key)]
        job_ids = [each for one in submitted for each in one.job_ids]
        if id_only:
            ends = [(one.job_ids[0], one.job_ids[-1]) for one in submitted]
            print("\n".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ends))
        elif not as_json:
            _show_number(submitted, job_ids) if each_line is not None else show_submitted(specs, submitted)
        if found is not None:
            found = as_promised(found, submitted[0].quote)
            if not as_json:
                show_pairs(pairs(found, now(), takes_plan=job.get("rent") == "auto"))
        over = _over(service, job_ids) if wait else None
    if as_json:
        answer = _answer(submitted, job_ids, list(uploads.values()), over)
        print_json(answer if found is None else {**answer, "by": found.as_json()})
    if over is not None:
        say_and_judge(over, silent=as_json or id_only)


def quote(
    job: Job,
    command: Command = None,
    file: File = None,
    partition: Annotated[
        str | None,
        Option(
            "--partition",
            metavar="NAME",
            help="Of a job in Slurm, with `betimes up --slurm`.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        str | None, Option("--nodes", metavar="N", help="Likewise: its nodes.", show_default=False)
    ] = None,
    ntasks: Annotated[
        str | None,
        Option(
            "--ntasks",
            metavar="N",
            help="Likewise: its tasks, with --cpus CPUs each. By default one a node.",
            show_default=False,
        ),
    ] = None,
    by: By = None,
    probability: Probability = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Say when a job would start and be done, and what it would cost, without submitting it.

    With --by, also how probable it is that it would be done by then.

    Of a file of several jobs, when each would be done if all were submitted now.

    With `betimes up --slurm` the job is one of that Slurm: a script as it would be given to sbatch, or --partition,
    --nodes, --ntasks, --cpus and --time, which prevail over the lines of a script.
    """
    from betimes.cli.live.connection import connect
    from betimes.cli.live.jobs.deadline import deadline_of, outlook, pairs
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.jobs import note_pairs, quote_pairs
    from betimes.cli.render.tables import say, show_pairs
    from betimes.cli.render.times import now

    deadline = deadline_of(by, probability)
    script = _script("quote", command, file)
    given = {"partition": partition, "nodes": nodes, "ntasks": ntasks}
    options = {name: value for name, value in given.items() if value is not None}
    if (script is not None or options) and _watches_slurm(state):
        asked: list[tuple[Fields, Path | None]] = [(_of_slurm(script, options, job), None)]
    elif options:
        raise InputError(
            f"--{next(iter(options))}: it is of a job in Slurm, which this service does not watch; leave it out, and "
            "see --units and --cpu"
        )
    else:
        asked = _asked("quote", command, file, job, script)
    _check_one(asked, deadline)
    # A quote sends no directory: a job is quoted as running in the directory itself.
    asked_fields = [
        fields if folder is None else {**fields, "upload": None, "workdir": str(folder)}
        for fields, folder in asked
    ]
    if len(asked) > 1:
        _quote_all(asked_fields, state, as_json)
        return
    (fields,) = asked_fields
    with connect(state) as service, _options_at_fault():
        is_resolved = file is not None and file.endswith(SUFFIXES)
        promise = service.quote(fields if is_resolved else with_numbers(service, fields))
    found = None if deadline is None else outlook(promise, deadline)
    if as_json:
        print_json(promise if found is None else {**dict(promise), "by": found.as_json()})
        return
    at_now = now(promise.made_at)
    say(f"{_title(fields)}, if it were submitted now")
    show_pairs([*quote_pairs(promise, _widest(fields), at_now), *note_pairs(promise)])
    if found is not None:
        show_pairs(pairs(found, at_now, takes_plan=False))


def submit_one(
    service: PlainClient, verb: str, command: list[str] | None, job: Fields, *, reads_input: bool = True
) -> Submitted:
    """Submit the command of another verb, with this command's piped input or without. Raises InputError."""
    ((fields, folder),) = _asked(verb, command or [], None, job, None)
    upload = None if folder is None else _send([folder], service, silent=True)[folder]
    with _options_at_fault():
        fields = with_input(fields) if reads_input else fields
        return service.submit(with_numbers(service, _in_copy(fields, upload)))


def _check_one(asked: Sequence[object], deadline: object) -> None:
    if deadline is not None and len(asked) != 1:
        raise InputError(
            "--by: it goes with one job, or one array; leave it out with --each-line and files of several"
        )


def _quote_all(asked: Sequence[Fields], state: str | None, as_json: bool) -> None:
    """Print when each of several jobs would start and be done if all of them were submitted now."""
    from betimes.cli.live.connection import connect
    from betimes.cli.render.as_json import print_json
    from betimes.cli.render.tables import Column, say, show
    from betimes.cli.render.times import both, now

    with connect(state) as service:
        found = service.what_if({"submit": list(asked)})
    new = [one for one in found.jobs if one.is_new]
    if as_json:
        print_json(new)
        return
    at_now, rows = now(found.made_at), list[list[str]]()
    for name in dict.fromkeys(one.name for one in new):
        jobs = [one for one in new if one.name == name]
        starts_at = [one.start_at for one in jobs if one.start_at is not None]
        start = both(min(starts_at), at_now) if starts_at else "never"
        rows.append([name, f"{len(jobs)}", start, _done(jobs, found.made_at, at_now)])
    if len(rows) > 1:
        rows.append(["all", f"{len(new)}", "", _done(new, found.made_at, at_now)])
    say("If all of them were submitted now")
    show((Column("Name", flexible=True), Column("Jobs", right=True), Column("Starts"), Column("Done")), rows)


def _done(jobs: Sequence[WhatIfJob], made_at: float, at_now: float) -> str:
    """The end of the last of these jobs, with its interval where each of them has one."""
    from betimes.cli.render.jobs import done
    from betimes.cli.render.times import both
    from betimes.service.views.ends import last_end

    end = last_end(jobs)
    if end is None:
        return "never"
    return both(end.finish_at, at_now) if end.level is None else done(end, made_at, at_now)


def _over(service: PlainClient, job_ids: Sequence[int]) -> list[JobView]:
    """The jobs once all of them are over; on Ctrl-C a note reports that they go on."""
    from betimes.cli.live.jobs.wait import wait_for

    try:
        return wait_for(service, job_ids)
    except KeyboardInterrupt:
        first, last = job_ids[0], job_ids[-1]
        which = f"job {first} goes" if first == last else f"jobs {first} to {last} go"
        numbers = f"{first}" if first == last else f"{first}-{last}"
        note = f"{which} on; `betimes wait {numbers}` waits again, and `betimes cancel {numbers}` ends that"
        report("betimes: note", note)
        raise


def with_numbers(service: PlainClient, fields: Fields) -> Fields:
    """The job with `after` as job numbers."""
    return {**fields, "after": waited_for(service, fields["after"])} if "after" in fields else fields


def with_input(fields: Fields) -> Fields:
    """The job with this command's piped input as its stdin. Raises InputError for input that cannot be kept."""
    if not _is_input_ours():
        if reader := _other_reader():
            note = (
                f"standard input is not kept with the job, as {reader} may read it, too; redirect it (< FILE)"
            )
            report("betimes: note", note)
        return fields
    data = sys.stdin.buffer.read(MOST_INPUT + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if len(data) > MOST_INPUT or "\0" in text:
        what = f"more than {MOST_INPUT >> 10} KiB" if len(data) > MOST_INPUT else "no text in UTF-8"
        raise InputError(
            f"{INPUT}: it is {what}, which is not kept with a job; put it in a file that the job reads: "
            "-- sh -c 'PROGRAM < FILE'"
        )
    return {**fields, "stdin": text} if text else fields


def _is_input_ours() -> bool:
    """Whether standard input is a pipe or file for this command alone, and not one that the caller reads, too.

    `while read line; do betimes submit ...; done < list` must not lose the rest of its list to the first job.
    """
    try:
        ours, theirs = os.fstat(0), Path(f"/proc/{_caller()}/fd/0").stat()
    except OSError:
        return False  # closed; or a system without /proc
    return _is_data(ours) and (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino)


def _caller() -> int:
    """The process that has called this command, be it by way of one that stands for its program and reads nothing."""
    pid = os.getppid()
    while pid > 1:
        name, _, rest = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").partition("(")[2].rpartition(")")
        )
        if name not in ("timeout", "time", "sudo", "flock"):
            break
        pid = int(rest.split()[1])
    return pid


def _is_data(of: os.stat_result) -> bool:
    return stat.S_ISFIFO(of.st_mode) or stat.S_ISREG(of.st_mode)


def _other_reader() -> str | None:
    """The caller, where it was given the same data; null: it is a shell, whose loops read that on purpose."""
    try:
        name = Path(f"/proc/{_caller()}/comm").read_text(encoding="utf-8").strip()
        return name if _is_data(os.fstat(0)) and name not in SHELLS else None
    except OSError:
        return None


@contextmanager
def _options_at_fault() -> Iterator[None]:
    """Turn the service's refusal of a field into an error that names the option."""
    try:
        yield
    except FieldError as refused:
        field = refused.field or ""
        raise wrong_option(field, str(refused).removeprefix(f"{field}: ")) from None


@contextmanager
def _job_at_fault(file: str, count: int) -> Iterator[None]:
    """Turn the service's refusal of a job of a file into an error that names file, job and field."""
    try:
        yield
    except FieldError as refused:
        place, field, text = _fault(refused)
        job = f", job {place + 1}" if count > 1 and field else ""
        raise InputError(f"{file}{job}{f', field {field}' if field else ''}: {text}") from None


def _fault(error: InputError) -> tuple[int, str, str]:
    """The place of a job among those that were sent, its field at fault (empty: none is known), and why."""
    field = error.field or "" if isinstance(error, FieldError) else ""
    of_several, _, inner = field.rpartition("].")
    place = int(of_several.removeprefix("jobs[")) if of_several else 0
    return place, inner, str(error).removeprefix(f"{field}: ")


def _title(fields: Fields) -> str:
    """The name: as given, or the program's."""
    return fields.get("name") or fields["command"][0].rsplit("/", 1)[-1]


def _widest(fields: Fields) -> int:
    """Units that the job may hold at once."""
    if not fields.get("as_one"):
        return fields.get("max_units", 1)
    from betimes.service.spec.job_spec import JobSpec, set_spec

    return set_spec(JobSpec(**fields)).max_units


def _submit_lines(service: PlainClient, path: str, job: Fields, key: str | None) -> list[Submitted]:
    """Submit a job for every line, in batches, so that a long file is not one request. Raises InputError."""
    shared = with_numbers(service, {"workdir": str(Path.cwd()), **given_fields(job)})
    if directory_of(shared) is not None:
        raise InputError("--upload: goes with one command or a file of jobs; leave it out with --each-line")
    submitted: list[Submitted] = []
    for number, lines in enumerate(_batches(path)):
        try:
            jobs = [{**shared, "command": words} for _, words in lines]
            submitted += service.submit(jobs, key=f"{key}.{number}" if key is not None else None)
        except InputError as refused:
            place, field, text = _fault(refused)
            where = f"{path}, line {lines[place][0]}" if field else path
            done = f" ({len(submitted):,} jobs of earlier lines are submitted)" if submitted else ""
            raise InputError(f"{where}: {wrong_option(field, text)}{done}") from None
    if not submitted:
        raise InputError(f"{path}: holds no line with a command")
    return submitted


def _batches(path: str) -> Iterator[list[tuple[int, list[str]]]]:
    """The commands of a file with their lines, `MOST_LINES` at a time. Raises InputError."""
    import shlex

    batch: list[tuple[int, list[str]]] = []
    try:
        with nullcontext(sys.stdin) if path == "-" else Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip() or line.lstrip().startswith("#"):
                    continue
                try:
                    batch.append((number, shlex.split(line)))
                except ValueError as error:
                    raise InputError(f"{path}, line {number}: {str(error).lower()}; close it") from None
                if len(batch) == MOST_LINES:
                    yield batch
                    batch = []
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"--each-line {path}: cannot be read ({reason}); name a file of commands") from None
    if batch:
        yield batch


def _show_number(submitted: Sequence[Submitted], job_ids: Sequence[int]) -> None:
    """Print the number of jobs made from lines, and the end of the last."""
    from betimes.cli.render.jobs import done, title
    from betimes.cli.render.tables import say
    from betimes.cli.render.times import now

    text, end = title(list(job_ids), f"{len(job_ids):,} in all"), _last_end(submitted)
    if end is not None:
        made_at = max(one.quote.made_at for one in submitted if one.quote is not None)
        text += f", done {done(end, made_at, now())}"
    say(text)


def _send(folders: Iterable[Path], service: PlainClient, *, silent: bool) -> dict[Path | None, Uploaded]:
    """Send directories, each once, and report it."""
    from betimes.cli.render.tables import say
    from betimes.units import file_size

    sent: dict[Path | None, Uploaded] = {}
    for folder in dict.fromkeys(folders):
        found = sent[folder] = service.upload(folder)
        if not silent:
            how = "sent" if found.sent else "there already"
            files = f"{found.files:,} file{'' if found.files == 1 else 's'}"
            say(f"Upload {folder}: {files}, {file_size(found.bytes)}, {how}")
    return sent


def _in_copy(fields: Fields, upload: Uploaded | None) -> Fields:
    return fields if upload is None else {**fields, "upload": upload.sha256}


def _asked(
    verb: str, command: list[str] | None, file: str | None, job: Fields, script: tuple[str, str] | None
) -> list[tuple[Fields, Path | None]]:
    """The jobs of the command line, each with the directory to send for it; script: as of `_script`.

    Raises InputError.
    """
    if script is not None:
        text, path = script
        fields = _of_script(text, path, command or [], job)
        return [(fields, directory_of(fields))]
    if (file is None) == (command is None):
        usage = f"betimes {verb} [OPTIONS] -- COMMAND..., betimes {verb} FILE.toml, or betimes {verb} SCRIPT"
        both = f"{file} and a command are given; one of them is enough" if file else "no job is given"
        raise InputError(f"{verb}: {both}: {usage}")
    given = given_fields(job)
    if file is None:
        if not command:
            raise InputError(f"{verb}: there is no command after --; name a program")
        return [(_here({**given, "command": command}), directory_of(given))]
    from pydantic import ValidationError

    from betimes.service.spec.job_file import read_drafts, specs_of
    from betimes.service.spec.job_spec import node_labels
    from betimes.service.spec.spec_errors import faults

    if "require" in given:  # by name, to be merged with the file's
        given["require"] = node_labels(given["require"])
    drafts = read_drafts(Path(file))
    try:
        specs = specs_of(drafts, **given)
    except ValidationError as error:
        first = faults(error)[0]
        raise wrong_option(first.field, first.text) from None
    sent = [spec.model_dump(mode="json", exclude_defaults=True) for spec in specs]
    return [(fields, draft.directory(**given)) for fields, draft in zip(sent, drafts, strict=True)]


def with_dashes(verb: str, options: list[str], command: list[str]) -> str:
    """The call that was meant, where the dashes before a command were forgotten; a whole line is a shell's."""
    import shlex

    shell = ["sh", "-c"] if len(command) == 1 and " " in command[0] else []
    return f"betimes {verb} {shlex.join([*options, '--', *shell, *command])}"


def _script(verb: str, command: list[str] | None, file: str | None) -> tuple[str, str] | None:
    """The batch script that is given, from a file or on standard input, and what to call it; null: none is.

    Raises InputError.
    """
    if file is not None and not file.endswith(SUFFIXES):
        from betimes.service.spec.sbatch import script_text

        try:
            return script_text(Path(file).read_bytes()), file
        except OSError as error:
            raise InputError(
                f"{file}: cannot be read ({error.strerror}); name a file of jobs or a script, or put -- before a "
                f"command: {with_dashes(verb, [], [file])}"
            ) from None
    if file is None and command is None and _is_data(os.fstat(0)):
        text = sys.stdin.read()
        return (text, INPUT) if text else None
    return None


def _of_script(text: str, path: str, arguments: list[str], job: Fields) -> Fields:
    """A batch script as a job; options of the command line prevail over its lines. Raises InputError."""
    from betimes.service.spec.sbatch import Given, read_script

    export = job.get("export")
    given = given_fields({**job, "export": None})
    batch = read_script(
        text,
        path,
        options=[] if export is None else [Given("export", export, None)],
        arguments=arguments,
        name="sbatch" if path == INPUT else None,
    )
    if len(batch.fields["stdin"].encode()) > MOST_INPUT:
        raise InputError(
            f"{path}: has more than {MOST_INPUT >> 10} KiB, which is not kept with a job; let a short script call it"
        )
    notes = [*batch.notes]
    notes += [
        f"{path}: --{name} is for sbatch; write {instead}"
        for name, instead in (("wait", "betimes submit --wait"), ("test-only", "betimes quote"))
        if name in batch.options
    ]
    for note in notes:
        report("betimes: note", note)
    fields = batch.fields
    if "require" in given:
        given["require"] = dict(label.partition("=")[::2] for label in given["require"])
    for name in ("env", "labels", "require"):
        if name in given:
            given[name] = {**fields.get(name, {}), **given[name]}
    if "upload" in given:
        del fields["workdir"]
    return {**fields, **given}


def _watches_slurm(state: str | None) -> bool:
    """Whether the service watches a Slurm, which takes the jobs."""
    from betimes.cli.live.connection import connect

    with connect(state) as service:
        return service.health().watches is not None


def _of_slurm(script: tuple[str, str] | None, options: dict[str, str], job: Fields) -> Fields:
    """The request to a Slurm of a script, or of options alone; options prevail. Raises InputError."""
    from betimes.service.spec.sbatch import Given, read_request

    given = given_fields(job)
    known = {"name", "cpu", "time_limit_s", "labels", "array"}
    if other := [name for name in given if name not in known]:
        text = (
            "a job in Slurm is asked about by --partition, --nodes, --ntasks, --cpus, --time, --array, --name"
        )
        raise wrong_option(other[0], f"{text}, and by the lines of its script")
    if (limit := job.get("time_limit")) is not None and limit.isdecimal():
        raise InputError(f"--time {limit}: is it minutes? write {limit}m, or 2:30:00")
    words = dict(options)
    if (cpus := given.pop("cpu", None)) is not None:
        words["cpus-per-task"] = f"{cpus:g}"
    text, path = (None, "the job") if script is None else script
    fields, notes = read_request(text, path, [Given(name, value, None) for name, value in words.items()])
    for note in notes:
        report("betimes: note", note)
    labels = {**fields.get("labels", {}), **given.pop("labels", {})}
    return {**fields, **given, **({"labels": labels} if labels else {})}


def _here(fields: Fields) -> Fields:
    """The job in the current folder, unless it names another or runs in a copy."""
    return fields if "upload" in fields else {"workdir": str(Path.cwd()), **fields}


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


def _last(submitted: Sequence[Submitted]) -> Fields | Quote | None:
    """The promise for all of them: that of the last to finish; None if one of them has none."""
    quotes, end = [one.quote for one in submitted], _last_end(submitted)
    if end is None:
        return next((each for each in quotes if each is not None and each.finish_at is None), None)
    last = next(each for each in quotes if each is not None and each.finish_at == end.finish_at)
    return {**dict(last), **end._asdict()}


def _last_end(submitted: Sequence[Submitted]) -> End | None:
    """The end of the last of them; None if one of them has no promise, or never ends."""
    from betimes.service.views.ends import last_end

    known = [one.quote for one in submitted if one.quote is not None]
    return last_end(known) if len(known) == len(submitted) else None


def show_submitted(specs: Sequence[Fields], submitted: Sequence[Submitted]) -> None:
    """Print what was taken, each job with its promise and notes."""
    from betimes.cli.render.jobs import done, no_promise, note_pairs, promise_pairs, starts, title
    from betimes.cli.render.tables import Column, say, show, show_pairs
    from betimes.cli.render.times import now, sentence
    from betimes.units import length, usd

    at_now = now(max((one.quote.made_at for one in submitted if one.quote is not None), default=None))
    if len(submitted) == 1:
        say(title(submitted[0].job_ids, _title(specs[0])))
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
            rows.append([number, _title(spec), "-", "-", "", "", no_promise(one, at_now)])
            continue
        promise = one.quote
        why = sentence(promise.reason.text, at_now) if promise.reason is not None else ""
        begin = "never" if promise.start_at is None else starts(promise, at_now)
        end = done(promise, promise.made_at, at_now) if promise.finish_at is not None else "-"
        rows.append([number, _title(spec), begin, end, length(promise.run_s), usd(promise.cost_usd), why])
    show(columns, rows, rest="a wider terminal or --json shows all")
    say(*dict.fromkeys(text for one in submitted for _, text in note_pairs(one)))
