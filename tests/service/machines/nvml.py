"""A stand-in for the module `pynvml`: the real one's errors and constants, and boards as a test wants them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml


@dataclass
class Board:
    """A GPU: `instances` is null for one without MIG, else its places, empty ones null; `fault` is what it answers."""

    model: str
    id: str
    instances: Sequence[Board | None] | None = None
    fault: int | None = None
    mig_fault: int = pynvml.NVML_ERROR_NOT_SUPPORTED


@dataclass
class FakeNvml:
    """As many of `pynvml`'s names as are used."""

    boards: Sequence[Board] = ()
    start_fault: int | None = None
    count_fault: int | None = None
    stop_fault: int | None = None
    open: int = field(default=0, init=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml"):
            raise AttributeError(name)  # a call that was forgotten here must not reach the real library
        return getattr(pynvml, name)

    def nvmlInit(self) -> None:  # noqa: N802
        _check(self.start_fault)
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1
        _check(self.stop_fault)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        _check(self.count_fault)
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Board:  # noqa: N802
        _check(self.boards[index].fault)
        return self.boards[index]

    def nvmlDeviceGetUUID(self, board: Board) -> str:  # noqa: N802
        return board.id

    def nvmlDeviceGetName(self, board: Board) -> str:  # noqa: N802
        return board.model

    def nvmlDeviceGetMigMode(self, board: Board) -> list[int]:  # noqa: N802
        if board.instances is None and board.mig_fault:
            _check(board.mig_fault)
        return [0 if board.instances is None else 1, 0]

    def nvmlDeviceGetMaxMigDeviceCount(self, board: Board) -> int:  # noqa: N802
        return len(board.instances or ())

    def nvmlDeviceGetMigDeviceHandleByIndex(self, board: Board, place: int) -> Board:  # noqa: N802
        found = (board.instances or ())[place]
        if found is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        _check(found.fault)
        return found


def _check(fault: int | None) -> None:
    if fault is not None:
        raise pynvml.NVMLError(fault)
