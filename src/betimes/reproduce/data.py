"""Where the published traces and tables lie: a folder that the user names."""

from __future__ import annotations

import os
from pathlib import Path

from betimes.errors import InputError

VARIABLE = "BETIMES_DATA"
DEFAULT = Path("../shared/data")  # relative to the current directory


def data_directory(named: Path | None = None) -> Path | None:
    """The folder given, else that of the environment's BETIMES_DATA, else the default where there is one.

    Raises InputError where a folder that was named is none.
    """
    source = "--data"
    if named is None:
        variable = os.environ.get(VARIABLE)
        if not variable:
            return DEFAULT if DEFAULT.is_dir() else None
        named, source = Path(variable), VARIABLE
    if not named.is_dir():
        raise InputError(f"{source} {named}: there is no such folder; name the one with the published data")
    return named


def check(name: str, needs: tuple[str, ...], data: Path | None) -> None:
    """Raise InputError naming the first file that experiment `name` needs and that is not there."""
    if not needs:
        return
    if data is None:
        raise InputError(
            f"{name} needs {needs[0]}, and no data directory is known; give --data DIR or set {VARIABLE}"
        )
    for file in needs:
        if not (data / file).is_file():
            raise InputError(
                f"{name} needs {data / file}, which is not there; "
                "put it there, or name another folder with --data DIR"
            )
