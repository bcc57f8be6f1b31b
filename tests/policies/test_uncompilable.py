"""A user's policy that Numba cannot compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes import simulate
from betimes.core.pool.columns import View
from betimes.errors import PolicyError
from betimes.kernels import INTERPRETED
from betimes.policies.declaring import mistyped
from betimes.policies.hooks import Policy
from betimes.policies.loading import load_policy
from tests.policies.test_violations import three_jobs


def test_a_policy_that_does_not_compile(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from betimes.policies import priority\n"
        "@priority(summary='')\n"
        "def objects(view, now, chosen, key):\n"
        "    key[0] = {}['no such thing']\n"
    )
    with pytest.raises(PolicyError, match="objects"):
        simulate(three_jobs(), f"{file}:objects", units=6)


HOOK = """
import math
from betimes.policies import priority
@priority(summary="One word of it is wrong.")
def mine(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = {}
"""


@pytest.mark.parametrize(
    ("wrong", "quoted", "near"),
    [
        ("view.jobs[chosen[k]].remainin_s", "KeyError: 'remainin_s'", " (did you mean 'remaining_s'?)"),
        ("vieww.jobs[chosen[k]].remaining_s", "name 'vieww' is not defined", " (did you mean 'view'?)"),
        ("math.sqr(now)", "module 'math' has no attribute 'sqr'", " (did you mean 'sqrt'?)"),
        ("view.jobs[chosen[k]].xyzzy", "KeyError: 'xyzzy'", ""),
    ],
)
def test_a_wrong_word_in_a_hook_is_found_with_its_line(
    tmp_path: Path, wrong: str, quoted: str, near: str
) -> None:
    (tmp_path / "mine.py").write_text(HOOK.format(wrong))
    policy = load_policy(str(tmp_path / "mine.py"), "mine", Policy)
    assert mistyped(policy.rank, quoted, [View]) == (7, near)
    assert mistyped(policy.rank, "KeyError: 'now'", [View]) is None
    if not INTERPRETED:
        with pytest.raises(PolicyError, match=r"mine\.py, line 4, mine\) does not compile: .*") as refused:
            policy.rules()
        assert str(refused.value).endswith(f", line 7{near}")
