"""What is made of what NVML answers."""

from __future__ import annotations

import pynvml
import pytest

from betimes.service.machines.gpus import find_gpus
from tests.service.machines.nvml import Board, FakeNvml

A, B, T4 = Board("A100", "GPU-aaaa"), Board("A100", "GPU-bbbb"), Board("T4", "GPU-cccc", mig_fault=0)
SLICES = (Board("A100 MIG 1g.5gb", "MIG-1"), None, Board("A100 MIG 2g.10gb", "MIG-2"))
DIVIDED = Board("A100", "GPU-dddd", instances=SLICES)


def found(nvml: FakeNvml, visible: str | None = None):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    result = find_gpus(environ, lambda: nvml)
    assert nvml.open == 0, "NVML is still initialised"
    return result


def test_whole_gpus() -> None:
    answer = found(FakeNvml([A, B, T4]))
    assert [gpu.id for gpu in answer.gpus] == ["GPU-aaaa", "GPU-bbbb", "GPU-cccc"]
    assert (answer.state, answer.message, answer.faults) == ("found", "GPUs: 2 x A100 + 1 x T4", ())


def test_instances_of_a_divided_gpu_stand_for_it() -> None:
    answer = found(FakeNvml([A, DIVIDED]))
    assert [gpu.id for gpu in answer.gpus] == ["GPU-aaaa", "MIG-1", "MIG-2"]
    assert answer.message == "GPUs: 1 x A100 + 1 x A100 MIG 1g.5gb + 1 x A100 MIG 2g.10gb"


def test_a_divided_gpu_without_instances_offers_nothing() -> None:
    answer = found(FakeNvml([Board("A100", "GPU-x", instances=(None, None))]))
    assert (answer.gpus, answer.state) == ((), "none")
    assert "have no compute instance" in answer.message


def no_package() -> FakeNvml:
    raise ImportError("No module named 'pynvml'")


def test_the_package_is_missing() -> None:
    answer = find_gpus({}, no_package)
    assert (answer.gpus, answer.state) == ((), "no-library")
    assert answer.message.startswith("no GPUs: the Python package nvidia-ml-py is missing")


@pytest.mark.parametrize(
    ("nvml", "state", "message"),
    [
        (FakeNvml(start_fault=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND), "no-driver", "no NVIDIA driver is installed"),
        (FakeNvml(start_fault=pynvml.NVML_ERROR_DRIVER_NOT_LOADED), "no-driver", "installed but not loaded"),
        (FakeNvml(start_fault=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH), "error", "does not start (RM has detected"),
        (FakeNvml(start_fault=pynvml.NVML_ERROR_NO_PERMISSION), "error", "does not start (Insufficient Permissions)"),
        (FakeNvml(count_fault=pynvml.NVML_ERROR_UNKNOWN), "error", "the NVIDIA driver fails (Unknown Error)"),
        (FakeNvml(), "none", "works and finds none"),
    ],
)  # fmt: skip
def test_why_there_is_none(nvml: FakeNvml, state: str, message: str) -> None:
    answer = found(nvml)
    assert (answer.gpus, answer.state) == ((), state)
    assert message in answer.message
    assert "\n" not in answer.message


def test_one_gpu_that_fails_is_left_out() -> None:
    lost = Board("A100", "GPU-x", fault=pynvml.NVML_ERROR_GPU_IS_LOST)
    answer = found(FakeNvml([A, lost, B]))
    assert [gpu.index for gpu in answer.gpus] == [0, 2]
    assert (answer.state, answer.faults) == ("found", ("GPU 1 is left out: GPU is lost",))


@pytest.mark.parametrize(
    "broken",
    [
        Board("A100", "GPU-x", fault=pynvml.NVML_ERROR_RESET_REQUIRED),
        Board("A100", "GPU-x", mig_fault=pynvml.NVML_ERROR_UNKNOWN),
        Board("A100", "GPU-x", instances=(Board("slice", "MIG-1", fault=pynvml.NVML_ERROR_UNKNOWN),)),
    ],
)
def test_all_gpus_fail(broken: Board) -> None:
    answer = found(FakeNvml([broken]))
    assert (answer.gpus, answer.state, len(answer.faults)) == ((), "error", 1)
    assert answer.message == "no GPUs: none of 1 works; see nvidia-smi"


def test_a_shutdown_that_fails_changes_nothing() -> None:
    assert found(FakeNvml([A], stop_fault=pynvml.NVML_ERROR_UNKNOWN)).state == "found"


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        ("1", ["GPU-bbbb"]),
        ("2, 0", ["GPU-cccc", "GPU-aaaa"]),
        ("GPU-b,MIG-2", ["GPU-bbbb", "MIG-2"]),
        ("0,0", ["GPU-aaaa"]),
        ("0,-1,1", ["GPU-aaaa"]),
        ("3", ["MIG-1", "MIG-2"]),
        ("GPU-dddd", ["MIG-1", "MIG-2"]),
        ("MIG-2", ["MIG-2"]),
    ],
)
def test_only_those_that_are_visible(visible: str, ids: list[str]) -> None:
    answer = found(FakeNvml([A, B, T4, DIVIDED]), visible)
    assert [gpu.id for gpu in answer.gpus] == ids
    assert answer.message.endswith(f"; CUDA_VISIBLE_DEVICES hides {5 - len(ids)} more")


@pytest.mark.parametrize("visible", ["", "-1", "none", "GPU-", "9", "NoDevFiles", "\N{SUPERSCRIPT TWO}"])
def test_all_are_hidden(visible: str) -> None:
    answer = found(FakeNvml([A, B]), visible)
    assert (answer.gpus, answer.state) == ((), "hidden")
    assert "hides all 2" in answer.message


def test_this_machine_as_it_is() -> None:
    answer = find_gpus()
    assert bool(answer.gpus) == (answer.state == "found")
