"""The catalogues of instance types that ship with Betimes: cluster files with offers, called by name."""

from __future__ import annotations

import os
from pathlib import Path

from betimes.cluster.checks import shown
from betimes.errors import ClusterError, did_you_mean

_FOLDER = Path(__file__).with_name("catalogues")


def catalogues() -> list[str]:
    """The names of all catalogues, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def is_bare(name: str) -> bool:
    """Whether a text can only name a catalogue or a file in the working folder: it is no path, and has no suffix."""
    return not any(mark in name for mark in (os.sep, os.altsep or os.sep, "."))


def catalogue_path(name: object) -> Path:
    """The file of a catalogue; raises ClusterError, with the nearest names, for an unknown name."""
    known = catalogues()
    if isinstance(name, str) and name in known:
        return _FOLDER / f"{name}.toml"
    hint = did_you_mean(name, known, most=3) if isinstance(name, str) else ""
    raise ClusterError(f"there is no catalogue {shown(name)}{hint}; catalogues are {', '.join(known)}")
