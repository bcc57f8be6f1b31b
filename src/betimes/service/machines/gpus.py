"""The NVIDIA GPUs of this machine, from NVML.

A machine without GPUs is the usual case and a broken driver must not keep the service from starting, so nothing here
raises: the result has a state that distinguishes the cases, and a sentence for the log.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

_LOG = logging.getLogger(__name__)

State = Literal["found", "none", "hidden", "no-library", "no-driver", "error"]


@dataclass(frozen=True)
class Gpu:
    """A GPU, or an instance of one that is divided (MIG), which a job uses like a GPU."""

    id: str  # the UUID: valid in CUDA_VISIBLE_DEVICES, and independent of the order
    model: str
    index: int  # of the board, in NVML's order
    board_id: str  # differs from `id` for an instance


@dataclass(frozen=True)
class FoundGpus:
    """The GPUs, why there are no more, and the faults of single GPUs, which are left out."""

    gpus: tuple[Gpu, ...]
    state: State
    message: str
    faults: tuple[str, ...] = ()


def find_gpus(
    environ: Mapping[str, str] = os.environ,
    load: Callable[[], Any] = lambda: importlib.import_module("pynvml"),
) -> FoundGpus:
    """The GPUs that this process may use: all, or those that CUDA_VISIBLE_DEVICES names.

    `load` gives the module `pynvml`. A driver that hangs makes this hang, so call it in a thread.
    """
    try:
        nvml = load()
    except ImportError as error:
        return FoundGpus((), "no-library", f"no GPUs: the Python package nvidia-ml-py is missing ({error})")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _without(nvml, error)
    try:
        return _visible(_found(nvml), environ)
    except nvml.NVMLError as error:
        return FoundGpus((), "error", f"no GPUs: the NVIDIA driver fails ({error}); see nvidia-smi")
    finally:
        _shut_down(nvml)


def _without(nvml: Any, error: Any) -> FoundGpus:
    if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return FoundGpus(
            (), "no-driver", "no GPUs: no NVIDIA driver is installed (libnvidia-ml.so.1 is missing)"
        )
    if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return FoundGpus((), "no-driver", "no GPUs: the NVIDIA driver is installed but not loaded")
    return FoundGpus((), "error", f"no GPUs: the NVIDIA driver does not start ({error}); see nvidia-smi")


def _found(nvml: Any) -> FoundGpus:
    count = nvml.nvmlDeviceGetCount()
    if count == 0:
        return FoundGpus((), "none", "no GPUs: the NVIDIA driver works and finds none")
    gpus: list[Gpu] = []
    faults: list[str] = []
    for index in range(count):
        try:
            gpus += _devices(nvml, index)
        except nvml.NVMLError as error:
            faults.append(f"GPU {index} is left out: {error}")
    if gpus:
        return FoundGpus(tuple(gpus), "found", f"GPUs: {summary(gpus)}", tuple(faults))
    if faults:
        return FoundGpus((), "error", f"no GPUs: none of {count} works; see nvidia-smi", tuple(faults))
    return FoundGpus((), "none", f"no GPUs: {count} are divided (MIG) and have no compute instance")


def summary(gpus: list[Gpu] | tuple[Gpu, ...]) -> str:
    """`2 x NVIDIA A100-SXM4-40GB + 1 x Tesla T4`."""
    models = [gpu.model for gpu in gpus]
    return " + ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))


def _devices(nvml: Any, index: int) -> list[Gpu]:
    """The board as one GPU, or its instances where it is divided: the board itself then runs nothing."""
    board = nvml.nvmlDeviceGetHandleByIndex(index)
    board_id, model = nvml.nvmlDeviceGetUUID(board), nvml.nvmlDeviceGetName(board)
    if not _is_divided(nvml, board):
        return [Gpu(board_id, model, index, board_id)]
    return [
        Gpu(nvml.nvmlDeviceGetUUID(instance), nvml.nvmlDeviceGetName(instance), index, board_id)
        for instance in _instances(nvml, board)
    ]


def _is_divided(nvml: Any, board: Any) -> bool:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(board)
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
            return False  # a GPU, or a driver, from before there was MIG
        raise
    return current == nvml.NVML_DEVICE_MIG_ENABLE


def _instances(nvml: Any, board: Any) -> Iterator[Any]:
    for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(board)):
        try:
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(board, place)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_NOT_FOUND:  # an empty place
                raise


def _visible(found: FoundGpus, environ: Mapping[str, str]) -> FoundGpus:
    """The GPUs named by CUDA_VISIBLE_DEVICES: the service may itself run inside an allocation.

    As CUDA reads it: numbers, or beginnings of UUIDs; entries after the first that names nothing do not count.
    """
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is None or not found.gpus:
        return found
    chosen: dict[str, Gpu] = {}
    for name in (part.strip() for part in named.split(",")):
        meant = [gpu for gpu in found.gpus if _is_meant(gpu, name)]
        if not meant:
            break
        chosen.update((gpu.id, gpu) for gpu in meant)
    gpus = tuple(chosen.values())
    if not gpus:
        return FoundGpus((), "hidden", f"no GPUs: CUDA_VISIBLE_DEVICES={named!r} hides all {len(found.gpus)}")
    hidden = len(found.gpus) - len(gpus)
    also = f"; CUDA_VISIBLE_DEVICES hides {hidden} more" if hidden else ""
    return FoundGpus(gpus, "found", f"GPUs: {summary(gpus)}{also}", found.faults)


def _is_meant(gpu: Gpu, name: str) -> bool:
    if name.isdecimal():
        return gpu.index == int(name)
    return len(name) > len("GPU-") and (gpu.id.startswith(name) or gpu.board_id.startswith(name))


def _shut_down(nvml: Any) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        _LOG.debug("NVML does not shut down: %s", error)  # every question has been answered
