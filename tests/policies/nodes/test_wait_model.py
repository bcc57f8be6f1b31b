"""Files of models of waits that are none, or are not to be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from betimes.errors import PolicyError
from betimes.policies import parse_nodes_policy
from betimes.policies.nodes.wait_model import WaitModel
from tests.foresight.waits.fixtures import stump


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    stump("waitq-size", 0.5, 0.0, 10.0).save(path)
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": np.array(2)}, "version 2, and this Betimes reads 1"),
        ({"features": np.array(["a", "b"])}, r"trained on other features \(a, b\)"),
        ({"left": np.array([0, -1, -1])}, "its trees lead nowhere"),
        ({"right": np.array([99, -1, -1])}, "its trees lead nowhere"),
        ({"feature": np.array([9, 0, 0])}, "its trees lead nowhere"),
        ({"weights": np.zeros(3)}, "its trees lead nowhere"),
        ({"value": np.zeros(2)}, "damaged"),
        ({"roots": None}, "damaged"),
        ({"version": None}, "this is no model of waits"),
    ],
)
def test_a_file_that_does_not_hold_together_is_refused(
    saved: Path, changes: dict[str, Any], said: str
) -> None:
    with np.load(saved) as archive:
        fields: dict[str, Any] = {name: archive[name] for name in archive.files} | changes
    np.savez(saved, **{name: value for name, value in fields.items() if value is not None})
    with pytest.raises(PolicyError, match=said):
        WaitModel.load(saved)


def test_no_code_in_a_file_is_ever_run(saved: Path) -> None:
    np.savez(saved, version=np.array(1), features=np.array([object()], dtype=object))
    with pytest.raises(PolicyError, match="this is no model of waits"):
        WaitModel.load(saved)
    saved.write_bytes(b"not an archive")
    with pytest.raises(PolicyError, match="this is no model of waits"):
        WaitModel.load(saved)
    with pytest.raises(PolicyError, match="cannot be read"):
        WaitModel.load(saved.with_name("none.npz"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sww:waits=learned", "learned waits need a model"),
        ("sww:model=x.npz", "parameter model: only with waits=learned"),
    ],
)
def test_parameters_that_do_not_agree_are_refused(text: str, said: str) -> None:
    chosen = parse_nodes_policy(text)
    with pytest.raises(PolicyError, match=said):
        chosen.policy.rules(chosen.values)
