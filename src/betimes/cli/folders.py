"""Directories of results and of pictures: made beside their final place and moved there when complete."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from betimes.errors import InputError

SUMMARY, COMPARISON = "summary.json", "comparison.json"
REPORT, PICTURES = "report.html", "pictures"


def check(option: str, directory: str) -> None:
    """Refuse early, before anything has run, a directory that cannot be made or written; raises InputError."""
    path = Path(directory)
    if path.exists() and not path.is_dir():
        raise InputError(f"{option} {directory}: is a file; name a directory")
    there = path.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise InputError(f"{option} {directory}: {there} is a file; name another directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{option} {directory}: no permission to write in {there}; name another directory")


def check_results(directory: str, *, several: bool) -> None:
    """`check`, and refuse a directory with anything but an earlier result of the same kind to replace."""
    check("--out", directory)
    path = Path(directory)
    if path.is_dir() and any(path.iterdir()) and not (path / (COMPARISON if several else SUMMARY)).is_file():
        kind = "comparison" if several else "result"
        raise InputError(
            f"--out {directory}: holds files that are no {kind} of Betimes; name another directory"
        )


@contextmanager
def staged(directory: str) -> Iterator[Path]:
    """An empty directory to fill; once the block ends well, its contents are moved to `directory`.

    They replace entries of the same names and all files of an earlier result there; other files stay. Raises
    InputError if `directory` cannot be written.
    """
    target = Path(directory).absolute()
    home = target
    while not home.exists():
        home = home.parent
    stage = home / f".betimes-{secrets.token_hex(8)}"
    try:
        with _refused_as_input(directory):
            stage.mkdir()
        yield stage
        with _refused_as_input(directory):
            _put(stage, target)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _put(stage: Path, target: Path) -> None:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        stage.rename(target)
        return
    if (stage / SUMMARY).exists():
        from betimes.outcome.store import OPTIONAL

        for name in OPTIONAL:  # left by an earlier result that had more files
            if not (stage / name).exists():
                (target / name).unlink(missing_ok=True)
    is_result = (stage / SUMMARY).exists() or (stage / COMPARISON).exists()
    if is_result and (target / REPORT).exists():  # it shows an earlier result
        (target / REPORT).unlink()
        if (target / PICTURES).is_dir():
            shutil.rmtree(target / PICTURES)
    for entry in sorted(stage.iterdir()):
        place = target / entry.name
        if entry.is_dir() and place.is_dir():
            shutil.rmtree(place)
        entry.replace(place)


@contextmanager
def _refused_as_input(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{directory}: cannot be written ({reason}); name another directory") from error


def names(policies: Sequence[str]) -> list[str]:
    """A folder's name for each policy: `wfq`, or `wfq-2` where it is the second of this name."""
    from betimes.outcome.tables import short_names

    return [re.sub(r"[^\w.-]+", "-", name).strip("-") for name in short_names(policies)]
