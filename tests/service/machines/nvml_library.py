"""A stand-in for NVIDIA's library, as a machine has it: compiled from `nvml.c`."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

COMPILER = shutil.which("cc")


@dataclass(frozen=True)
class Library:
    """Where it lies, and the file that says what is wrong with it."""

    path: Path
    fault: Path


def built(folder: Path) -> Library:
    """The library, in this folder, under its name."""
    assert COMPILER is not None
    path, fault = folder / "libnvidia-ml.so.1", folder / "fault"
    source = Path(__file__).with_name("nvml.c")
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", f'-DFAULT_FILE="{fault}"', "-o", str(path), str(source)], check=True
    )
    return Library(path, fault)
