"""The cache of compiled code: its folder is named by everything that can change the code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from betimes.core.kernel import hash_sources, kernel_sources

import betimes
from betimes.core import kernel

PACKAGE = Path(betimes.__file__).parent


def write(folder: Path, **contents: str) -> list[Path]:
    files = [folder / f"{name}.py" for name in contents]
    for file, text in zip(files, contents.values(), strict=True):
        file.write_text(text)
    return files


def test_the_hash_changes_with_every_source_and_every_fact(tmp_path: Path) -> None:
    files = write(tmp_path, a="x = 1\n", b="y = 1\n")
    plain = hash_sources(files)
    seen = {plain, hash_sources(files, "boundscheck=True"), hash_sources(files, "boundscheck=False")}
    seen |= {hash_sources(files[:1]), hash_sources(files[::-1])}
    for file in files:
        before = file.read_text()
        file.write_text(before + " ")
        seen.add(hash_sources(files))
        file.write_text(before)
    seen.add(hash_sources([files[0], files[1].rename(tmp_path / "c.py")]))
    # What stands at the end of one file must not count as the beginning of the next.
    seen.add(hash_sources(write(tmp_path, a="x = 1\ny = 1\n", b="")))
    assert len(seen) == 9
    assert hash_sources(write(tmp_path, a="x = 1\n", b="y = 1\n")) == plain


def test_the_hash_changes_with_the_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write(tmp_path, a="x = 1\n")
    plain = hash_sources(files)
    for name in ("numba", "numpy"):
        with monkeypatch.context() as patch:
            patch.setattr(
                kernel, "version", lambda of, name=name, real=kernel.version: "0" if of == name else real(of)
            )
            assert hash_sources(files) != plain


def test_every_file_with_a_kernel_is_hashed() -> None:
    decorated = re.compile(r"^\s*@(?:kernel\.)?(?:lean_)?kernel\b|njit", re.MULTILINE)
    with_kernels = {file for file in PACKAGE.rglob("*.py") if decorated.search(file.read_text())}
    assert with_kernels - {PACKAGE / "core" / "kernel.py"} <= set(kernel_sources())
    assert len(with_kernels) > 8


def cache_folder(package_home: Path, **environment: str) -> Path:
    """Where a new process keeps the compiled code of the package that lies in `package_home`."""
    code = (
        "import betimes.core.kernel as k, numba\n"
        "assert numba.config.CACHE_DIR == str(k.CACHE_DIR)\n"
        "print(k.CACHE_DIR)"
    )
    told = {**os.environ, "PYTHONPATH": str(package_home), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def test_an_edit_of_any_kernel_and_a_flag_moves_the_cache(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "home" / "betimes", ignore=shutil.ignore_patterns("__pycache__"))
    home, cache = tmp_path / "home", {"BETIMES_CACHE_DIR": str(tmp_path / "cache")}
    plain = cache_folder(home, **cache)
    assert plain.parent == tmp_path / "cache"
    assert cache_folder(home, **cache) == plain
    assert cache_folder(home, BETIMES_BOUNDSCHECK="1", **cache) != plain
    edited = home / "betimes" / "policies" / "srtf.py"
    edited.write_text(edited.read_text() + "\n# one more line\n")
    assert cache_folder(home, **cache) != plain
