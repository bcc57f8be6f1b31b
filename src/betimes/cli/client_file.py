"""`betimes service client-file`: the verbs that talk to a service, and Slurm's commands, as one file that Python runs.

The file is a zip of the modules themselves. Spellings that Python 3.9 lacks are replaced, and where a call has a
mistake or asks for help, argparse answers in the place of Typer, from the same declarations.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

from betimes.cli.verbs import VERBS, AfterDashes, Argument, Option, Verb, parameters_of, quick, single
from betimes.errors import InputError
from betimes.files import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MODULES = (
    *(
        "__init__.py",
        "errors.py",
        "extras.py",
        "files.py",
        "lazy.py",
        "printing.py",
        "units.py",
        "cli/*.py",
        "cli/live/**/*.py",
    ),
    *("cli/render/*.py", "client/*.py", "service/__init__.py", "service/access/*.py", "service/spec/*.py"),
    *("service/uploads/*.py", "service/views/__init__.py", "service/views/ends.py"),
    *("slurm/__init__.py", "slurm/hostlist.py"),
)
_OLDER = (
    (re.compile(r"(\bAnnotated\[\s*)([^|\n]+?) \| None,"), r'\1__import__("typing").Optional[\2],'),
    (re.compile(r",\s*strict=(True|False)"), ""),
)
_MAIN = """\
import os
import sys

if sys.version_info < (3, 9):
    sys.exit("betimes: this is Python %d.%d; run the file with Python 3.9 or newer: python3.9 %s ..." % (
        sys.version_info[0], sys.version_info[1], sys.argv[0]))


# The folder of the modules, unpacked once so that Python keeps their byte code; else the archive itself.
def unpacked(archive):
    above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    above = os.path.join(above, "betimes")
    folder = os.path.join(above, "client-{key}")
    if not os.path.isabs(folder):
        return archive
    if not os.path.isdir(folder):
        import shutil
        import tempfile
        import zipfile

        draft = None
        try:
            os.makedirs(above, 0o700, exist_ok=True)
            draft = tempfile.mkdtemp(dir=above)
            with zipfile.ZipFile(archive) as modules:
                modules.extractall(draft)
            os.rename(draft, folder)
        except OSError:  # no folder can be written, or another call was sooner
            shutil.rmtree(draft or "", ignore_errors=True)
    # With sudo the home may be another user's: what they can write is not run.
    ours = os.path.isdir(folder) and os.stat(folder).st_uid == getattr(os, "geteuid", int)()
    return folder if ours else archive


sys.path[0] = unpacked(sys.path[0])
from betimes.cli.client_file import main

sys.exit(main(os.path.basename(sys.argv[0]), sys.argv[1:]))
"""
_FULL = "it needs all of Betimes, which this file is not: pip install 'betimes[all]'"


def client_file(
    path: Annotated[
        str,
        Argument(metavar="OUT.pyz", help="The file to write; an older one is replaced.", show_default=False),
    ],
) -> None:
    """Write the verbs that talk to a service, and Slurm's commands, as one file that needs no installation.

    It needs Python 3.9 or newer, and finds the service as `betimes` does: by BETIMES_URL and BETIMES_TOKEN, or
    BETIMES_STATE. `OUT.pyz squeue` is Slurm's command, and so is a link named squeue to the file.
    """
    from betimes.cli.slurm import running_file

    target, source = Path(path).expanduser().absolute(), Path(__file__).parents[1]
    if (this := running_file()) is not None:
        raise InputError(f"{path}: this is such a file; copy it: cp {this} {path}")
    modules: dict[str, str] = {}
    for module in sorted({found for pattern in MODULES for found in source.glob(pattern)}):
        text = module.read_text(encoding="utf-8")
        for newer, older in _OLDER:
            text = newer.sub(older, text)
        modules[f"betimes/{module.relative_to(source)}"] = text
    key = hashlib.sha256(repr(modules).encode()).hexdigest()[:16]
    try:
        with whole_file(target, 0o777) as file:
            file.write(b"#!/usr/bin/env python3\n")
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                put = partial(archive.writestr, compress_type=zipfile.ZIP_DEFLATED)
                for name, text in {"__main__.py": _MAIN.replace("{key}", key), **modules}.items():
                    put(zipfile.ZipInfo(name), text)  # at a fixed time: the same file each time
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); name another file") from None
    print(f"{target} is written; try {target} --help")


def main(name: str, words: Sequence[str]) -> int:
    """Run the file under a name, that of one of Slurm's commands or any other; returns the exit code."""
    from betimes.cli import slurm
    from betimes.cli.main import main as run

    if name not in slurm.COMMANDS and words and words[0] in slurm.COMMANDS:
        name, words = words[0], words[1:]
    if name in slurm.COMMANDS:
        return slurm.main(name, words)
    return run(words, run_verb)


def run_verb(words: list[str]) -> int:
    """Run a verb, or print help. Raises InputError for a verb or an option that there is not."""
    verbs = {name: verb for name, verb in VERBS.items() if not verb.module.startswith("betimes.cli.simulate")}
    name = next((name for name in (" ".join(words[:2]), *words[:1]) if name in verbs), None)
    try:
        if name is not None:
            (quick(words) or _with_argparse(name, verbs[name], words[len(name.split()) :]))()
        elif not words or words[0] in ("-h", "--help", "--help-all"):
            print("Usage: betimes VERB [OPTIONS], and betimes VERB --help; Slurm's commands are verbs, too\n")
            print("\n".join(f"  {name:16}  {verb.help}" for name, verb in verbs.items() if verb.help))
        else:
            known = words[0] in VERBS
            raise InputError(
                f"{words[0]!r}: {_FULL if known else 'there is no such verb; `--help` lists them'}"
            )
    except ImportError:
        raise InputError(f"{' '.join(words[:6])}: {_FULL}") from None
    return 0


def _with_argparse(name: str, verb: Verb, words: list[str]) -> Callable[[], None]:
    """A function that runs the verb with these words. Prints help where they ask for it; raises InputError."""
    import argparse
    import inspect

    from betimes.cli.verbs import function_of

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise InputError(f"{name}: {message}; `{name} --help` shows more")

    function = function_of(verb)
    declared = parameters_of(function)
    parser = Parser(
        prog=f"betimes {name}",
        description=inspect.cleandoc(function.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--help-all", action="help", help=argparse.SUPPRESS)
    values: dict[str, Any] = {}
    for each in declared:
        kind: Any = single(each.kind)
        is_many = getattr(kind, "__origin__", None) is list
        if isinstance(each.declaration, AfterDashes):
            values[each.name] = words[words.index("--") + 1 :] if "--" in words else None
            words = words[: words.index("--")] if "--" in words else words
            continue
        settings: dict[str, Any] = {"help": (each.declaration.settings.get("help") or "").replace("%", "%%")}
        if kind is bool:
            settings["action"] = (
                argparse.BooleanOptionalAction if "/" in each.declaration.flags[0] else "store_true"
            )
        else:
            settings["metavar"] = each.declaration.settings.get("metavar")
            if kind is int or kind is float:
                settings["type"] = kind
            elif getattr(kind, "__origin__", None) is Literal:
                settings["choices"] = kind.__args__
        if isinstance(each.declaration, Option):
            if is_many:
                settings["action"] = "append"
            flags = [flag.partition("/")[0] for flag in each.declaration.flags]
            parser.add_argument(
                *flags,
                dest=each.name,
                default=argparse.SUPPRESS,
                required=each.declaration.required,
                **settings,
            )
        else:
            optional = kind is not each.kind
            several = ("*" if optional else "+") if is_many else ("?" if optional else None)
            parser.add_argument(each.name, nargs=several, default=argparse.SUPPRESS, **settings)
    found = vars(parser.parse_args(words))
    for each in declared:
        if each.table:
            values.setdefault(each.table, {})[each.name] = found.get(each.name)
        elif each.name in found:
            values[each.name] = found[each.name]
    return partial(function, **values)
