"""What happens to a user's policy that misbehaves: an error that names policy, job and time, and no crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from betimes import Workload, simulate
from betimes.errors import PolicyError, PolicyViolation
from betimes.outcome import JobState, summarise
from betimes.policies import ChosenPolicy, Policy, kernel

MISBEHAVING = '''
"""Policies that do what they should not."""

import math

from betimes.policies import Parameter, allocation, greedy, priority


@allocation(summary="Wrong in many ways.", parameters=(Parameter("how", "which way", 0.0),))
def wrong(view, now, grants, again):
    how = int(view.params[0])
    line, head = view.order[0], view.groups[0].head
    active = view.groups[0].tail - head
    if now < 3.0:  # well-behaved at first, and nobody runs
        return 0
    grants[0].job = line[head]
    grants[0].units = 2.0
    count = 1
    if how == 1:  # too many units
        for k in range(active):
            grants[k].job = line[head + k]
            grants[k].units = 4.0
        return active
    elif how == 2:
        grants[0].units = math.nan
    elif how == 3:
        grants[0].units = -1.0
    elif how == 4:
        grants[0].units = 0.0
    elif how == 5:  # twice
        grants[1].job = line[head]
        grants[1].units = 2.0
        count = 2
    elif how == 6:  # below the minimum
        grants[0].units = 1.0
    elif how == 7:  # above the maximum
        grants[0].units = 5.0
    elif how == 8:  # a fraction
        grants[0].units = 2.5
    elif how == 9:  # no such slot
        grants[0].job = 1 << 40
    elif how == 10:
        grants[0].job = -1
    elif how == 11:  # a slot, but nobody is in it
        grants[0].job = line[head] + 100 if line[head] < 100 else line[head] - 100
    elif how == 12:
        again[0].at_s = now
    elif how == 13:
        again[0].at_s = now - 1.0
    elif how == 14:
        again[0].at_s = math.nan
    elif how == 15:
        count = active + 1
    elif how == 16:
        count = -1
    elif how == 17:
        raise ValueError("I give up")
    elif how == 18:  # out of bounds
        grants[1 << 20].job = 0
    elif how == 19:
        grants[0].units = view.params[7]
    elif how == 20:
        grants[0].units = math.inf
    elif how == 21:  # for ever
        again[0].at_s = now + 1.0
        count = 0
    elif how == 22:
        count = 0
    return count


@priority(summary="Never a number.")
def nameless(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = math.nan


@priority(summary="Not a number once it has run.")
def confused(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = 0.0 if view.jobs[chosen[k]].attained == 0.0 else math.nan


@priority(summary="Raises.")
def raising(view, now, chosen, key):
    if now >= 2.0:
        raise ZeroDivisionError("by nothing")
    for k in range(len(chosen)):
        key[k] = 0.0
'''

# How it misbehaves, whether a job is at fault, and what the message says of it.
WRONG = {
    1: (False, "more units than the pool has"),
    2: (True, "not positive"),
    3: (True, "not positive"),
    4: (True, "not positive"),
    5: (True, "twice"),
    6: (True, "fewer units than the job's minimum"),
    7: (True, "more units than the job can use"),
    8: (True, "fraction of a unit"),
    9: (False, "no active job"),
    10: (False, "no active job"),
    11: (False, "no active job"),
    12: (False, "not in the future"),
    13: (False, "not in the future"),
    14: (False, "not in the future"),
    15: (False, "number of grants"),
    16: (False, "number of grants"),
    17: (False, "ValueError: I give up"),
    18: (False, "IndexError"),
    19: (False, "IndexError"),
    20: (True, "more units than the job can use"),
}


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("policies") / "misbehaving.py"
    file.write_text(MISBEHAVING)
    return file


def three_jobs() -> Workload:
    return Workload.from_columns(
        job_id=["anna", "berta", "clara"],
        submit_s=[1.0, 2.0, 3.5],
        work_s=[8.0, 8.0, 8.0],
        min_units=[2, 1, 1],
        max_units=[4, 4, 4],
    )


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("predict", [True, False], ids=["predict", "plain"])
def test_a_bad_decision_names_policy_job_and_time(policies: Path, how: int, predict: bool) -> None:
    about_a_job, reason = WRONG[how]
    with pytest.raises(PolicyViolation) as refused:
        simulate(three_jobs(), f"{policies}:wrong:how={how}", units=6, predict=predict)
    message = str(refused.value)
    assert f"policy {policies}:wrong:how={how} at 3.5 s" in message
    assert ("job anna" in message) == about_a_job
    assert reason in message
    assert "\n" not in message


def test_a_fraction_is_right_in_a_pool_of_fractions(policies: Path) -> None:
    finish_s = simulate(three_jobs(), f"{policies}:wrong:how=8", units=6, fractional=True).jobs.finish_s
    assert finish_s[0] == 3.5 + 8 / 2.5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nameless", r"nameless at 1 s, job anna: .*not a number"),
        ("confused", r"confused at 2 s, job anna: .*not a number"),
        ("raising", r"raising at 2 s.*ZeroDivisionError: by nothing"),
    ],
)
def test_a_bad_rank(policies: Path, name: str, message: str) -> None:
    with pytest.raises(PolicyViolation, match=message):
        simulate(three_jobs(), f"{policies}:{name}", units=6)


@pytest.mark.parametrize("group", [-1, 1])
def test_a_group_that_does_not_exist(group: int) -> None:
    def classify(view, slot):
        return group

    policy = Policy("lost", "", "", "", classify=kernel(classify))
    with pytest.raises(PolicyViolation, match="lost at 1 s, job anna: put a job into a group"):
        simulate(three_jobs(), ChosenPolicy(policy, {}, (), "lost"), units=6)


@pytest.mark.parametrize("how", [21, 22], ids=["wakes up for ever", "sleeps for ever"])
@pytest.mark.parametrize("predict", [True, False], ids=["predict", "plain"])
def test_jobs_that_never_run_are_reported(policies: Path, how: int, predict: bool) -> None:
    result = simulate(three_jobs(), f"{policies}:wrong:how={how}", units=6, predict=predict, timeline=True)
    assert (result.jobs.state == JobState.UNFINISHED).all()
    assert result.segments is not None
    assert len(result.segments) == 0
    for column in ("start_s", "finish_s", "predicted_finish_s"):
        assert all(value != value for value in getattr(result.jobs, column))  # noqa: PLR0124
    assert summarise(result)["unfinished"] == 3


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("x = 1\n", "x", "'x' is not a policy; decorate"),
        ("from betimes.policies import POLICIES\nmine = POLICIES['fifo']\n", "yours", "it has mine"),
        ("import no_such_module\n", "x", "ModuleNotFoundError"),
        ("def f(:\n", "f", "SyntaxError"),
        ("raise RuntimeError('on purpose')\n", "f", "RuntimeError: on purpose"),
        ("\nimport math\nmath.sqr\n", "f", r", line 3: AttributeError: .* \(did you mean 'sqrt'\?\)"),
        ("def nearly(): ...\nnearl()\n", "f", r", line 2: NameError: .* \(did you mean 'nearly'\?\)"),
        ("from math import sqr\n", "f", r", line 1: ImportError: .* \(did you mean 'sqrt'\?\)"),
    ],
)
def test_a_policy_file_that_does_not_load(tmp_path: Path, text: str, name: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(PolicyError, match=message) as refused:
        simulate(three_jobs(), f"{file}:{name}", units=6)
    assert str(file) in str(refused.value)


@pytest.mark.parametrize("name", ["", "x"])
def test_a_policy_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(PolicyError, match="no such file"):
        simulate(three_jobs(), f"{tmp_path / 'none.py'}:{name}", units=6)


def test_a_policy_file_without_a_name(policies: Path) -> None:
    with pytest.raises(PolicyError, match="say which policy"):
        simulate(three_jobs(), str(policies), units=6)


GREEDY_LATER = """
from betimes.policies import allocation


@allocation(summary="Keeps within the pool until it thinks that nobody looks.")
def later(view, now, grants, again):
    grants[0].job = view.order[0, view.groups[0].head]
    grants[0].units = 1.0 if now < 2.5 else 99.0
    again[0].at_s = now + 1.0
    return 1
"""


def test_a_bad_decision_in_a_play_out_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GREEDY_LATER)
    jobs = Workload.from_columns(submit_s=[0.0], work_s=[9.0], max_units=2)
    with pytest.raises(PolicyViolation, match="playing forward from 0 s, job 0: granted more units"):
        simulate(jobs, f"{tmp_path / 'mine.py'}:later", units=2, predict=True)


def test_ranks_are_asked_of_active_jobs_alone(tmp_path: Path) -> None:
    """A policy that cannot bear to be asked about more jobs than there are."""
    (tmp_path / "mine.py").write_text(
        "from betimes.policies import priority\n"
        "@priority(summary='')\n"
        "def strict(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        if view.jobs[chosen[k]].submit_s > now or len(chosen) > view.pool[0].active:\n"
        "            raise ValueError('not an active job')\n"
        "        key[k] = view.jobs[chosen[k]].remaining_s\n"
    )
    jobs = Workload.from_columns(submit_s=[0.0, 1.0, 2.0, 30.0], work_s=[5.0, 3.0, 4.0, 1.0])
    result = simulate(jobs, f"{tmp_path / 'mine.py'}:strict", units=1, predict=True)
    assert result.jobs.finish_s.tolist() == [8.0, 4.0, 12.0, 31.0]


def test_a_policy_that_wakes_up_without_end_can_be_interrupted(tmp_path: Path) -> None:
    """Events are handed out in portions, so that a signal is seen between two of them."""
    (tmp_path / "mine.py").write_text(
        "from betimes.policies import allocation, greedy\n"
        "@allocation(summary='')\n"
        "def restless(view, now, grants, again):\n"
        "    again[0].at_s = now + 1e-9\n"
        "    return greedy(view, now, grants, again)\n"
    )
    jobs = Workload.from_columns(submit_s=[0.0], work_s=[30.0])
    seen: list[int] = []

    def look(done: int) -> None:
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(jobs, f"{tmp_path / 'mine.py'}:restless", units=1, progress=look)


def test_a_parameter_that_must_be_given(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from betimes.policies import Parameter, priority\n"
        "@priority(summary='', parameters=(Parameter('width', 'without default'),))\n"
        "def needs(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        key[k] = view.params[0]\n"
    )
    with pytest.raises(PolicyError, match="parameter width: needs a number"):
        simulate(three_jobs(), f"{tmp_path / 'mine.py'}:needs", units=6)


@pytest.mark.parametrize("number", ["1e400", "1e999999999", "nan", "1/0", "1/1e400"])
def test_numbers_beyond_reason(number: str) -> None:
    with pytest.raises(PolicyError, match="lease"):
        simulate(three_jobs(), f"themis:lease={number}", units=6)


def test_an_edit_below_the_folder_is_seen(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    helper = tmp_path / "sub" / "signs.py"
    helper.write_text("from betimes.policies import kernel\n@kernel\ndef sign():\n    return 1.0\n")
    (tmp_path / "mine.py").write_text(
        "from betimes.policies import priority\n"
        "from sub.signs import sign\n"
        "@priority(summary='')\n"
        "def signed(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        key[k] = sign() * view.jobs[chosen[k]].size_s\n"
    )
    jobs = Workload.from_columns(submit_s=[0.0, 0.0], work_s=[4.0, 8.0])
    finishes = []
    for sign in ("1.0", "-1.0"):
        helper.write_text(helper.read_text().replace("return 1.0", f"return {sign}"))
        finishes.append(simulate(jobs, f"{tmp_path / 'mine.py'}:signed", units=1).jobs.finish_s.tolist())
    assert finishes == [[4.0, 12.0], [12.0, 8.0]]


def test_a_default_may_be_a_whole_number(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from betimes.policies import Parameter, priority\n"
        "@priority(summary='', parameters=(Parameter('sign', '1: short jobs first', -1),))\n"
        "def signed(view, now, chosen, key):\n"
        "    for k in range(len(chosen)):\n"
        "        key[k] = view.params[0] * view.jobs[chosen[k]].size_s\n"
    )
    jobs = Workload.from_columns(submit_s=[0.0, 0.0], work_s=[4.0, 8.0])
    assert simulate(jobs, f"{tmp_path / 'mine.py'}:signed", units=1).jobs.finish_s.tolist() == [12.0, 8.0]


STRAY = """
from betimes.policies import priority


@priority(summary="Writes nothing from some time on.")
def silent(view, now, chosen, key):
    if now < 2.0:
        for k in range(len(chosen)):
            key[k] = 0.0


@priority(summary="Writes too far.")
def too_far(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = 0.0
    key[len(chosen)] = 0.0


@priority(summary="Writes into what it is asked about.")
def elsewhere(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = 0.0
        chosen[k] = 0


@priority(summary="Shortens jobs.")
def shorter(view, now, chosen, key):
    for k in range(len(chosen)):
        key[k] = 0.0
        view.jobs[chosen[k]].remaining_s = 0.0
"""


def test_a_rank_that_strays_is_refused_or_harmless(tmp_path: Path) -> None:
    file = tmp_path / "stray.py"
    file.write_text(STRAY)
    with pytest.raises(
        PolicyViolation, match=r"silent at .*: ranked a job with a key that is not a number, or"
    ):
        simulate(three_jobs(), f"{file}:silent", units=6)
    with pytest.raises(PolicyViolation, match=r"too_far at .*IndexError"):
        simulate(three_jobs(), f"{file}:too_far", units=6)
    with pytest.raises(PolicyError, match=r"stray\.py, line \d+, shorter writes remaining_s"):
        simulate(three_jobs(), f"{file}:shorter", units=6)
    found = simulate(three_jobs(), f"{file}:elsewhere", units=6).jobs.finish_s
    assert found.tolist() == simulate(three_jobs(), "fifo", units=6).jobs.finish_s.tolist()
