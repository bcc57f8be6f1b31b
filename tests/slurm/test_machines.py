"""What scontrol and sdiag print: recorded, of other versions, and hostile."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from betimes.slurm.machines import Counts, fields, read_counts, read_machines, read_settings
from tests.slurm.recording import machines, picture, printed

OLD_NODE = "NodeName=a1 CoresPerSocket=1 CPUAlloc=0 CPUTot=8 RealMemory=1000 State=IDLE Gres=gpu:2(S:0) Partitions=main"
"""As 20.11 prints it, without CPUEfctv."""
NEW_NODE = (
    "NodeName=a2 Arch=x86_64 CPUAlloc=0 CPUEfctv=30 CPUTot=32 CPULoad=0.00 Gres=(null) OS=Linux 6.1 #1 SMP x "
    "RealMemory=1000 State={} Partitions=main Comment=State=DOWN is what it was Extra="
)
"""As 23.11 and later print it, with CPUs that are kept from jobs."""
OLD_PARTITION = (
    "PartitionName=main Default=YES DefaultTime=00:10:00 MaxTime=1-00:00:00 Nodes=a[1-2] Shared=EXCLUSIVE Priority=3 "
    "PreemptMode=OFF State=UP"
)


def test_recorded_machines() -> None:
    found = machines()
    assert found.not_understood == ()
    assert [*found.nodes] == [f"n{number}" for number in range(1, 9)]
    assert {each.cpus for each in found.nodes.values()} == {4}
    assert [name for name, each in found.nodes.items() if not each.is_open] == ["n8"]  # which is drained
    batch, short = found.partitions["batch"], found.partitions["short"]
    assert (batch.limit_s, batch.tier, len(batch.nodes)) == (math.inf, 1, 8)
    assert (short.limit_s, short.tier, short.nodes) == (3600.0, 2, {"n1", "n2"})
    assert not any((short.is_exclusive, short.is_oversubscribed, short.preempts))
    [maintenance] = found.reservations
    assert maintenance.nodes == {"n7"}
    assert maintenance.to_at - maintenance.from_at == 3600.0
    assert found.settings["SLURM_VERSION"] == "22.05.8"
    assert found.kept_s == 300.0
    assert not found.hides_jobs
    assert not found.whole_nodes


def test_other_versions() -> None:
    settings = (
        "SelectType              = select/linear\nPrivateData             = jobs,usage\nMinJobAge = 60 sec\n"
    )
    lines = "\n".join([OLD_NODE, NEW_NODE.format("IDLE+PLANNED"), ""])
    found = read_machines(lines, OLD_PARTITION, settings, "No reservations in the system\n")
    assert [(each.cpus, each.is_open) for each in found.nodes.values()] == [(8, True), (30, True)]
    assert found.nodes["a1"].gres == "gpu:2(S:0)"
    main = found.partitions["main"]
    assert (main.limit_s, main.default_s, main.tier, main.is_exclusive) == (86400.0, 600.0, 3, True)
    assert (found.hides_jobs, found.whole_nodes, found.kept_s, found.reservations) == (True, True, 60.0, ())


@pytest.mark.parametrize(
    ("state", "is_open"),
    [("IDLE", True), ("MIXED", True), ("ALLOCATED+COMPLETING", True), ("IDLE*+NOT_RESPONDING", False), ("DOWN*", False),
     ("MIXED+DRAIN", False), ("IDLE+MAINTENANCE+RESERVED", False), ("IDLE+CLOUD+POWERED_DOWN", False),
     ("FAILING", False), ("UNKNOWN", False), ("INVAL", False)],
)  # fmt: skip
def test_states_of_nodes(state: str, *, is_open: bool) -> None:
    [node] = read_machines(NEW_NODE.format(state), "", "", "").nodes.values()
    assert node.is_open is is_open


def test_what_is_not_understood_is_kept() -> None:
    found = read_machines(
        "NodeName=a1 State=IDLE\nHELLO\n", "PartitionName=x MaxTime=soon", "", "Reservation"
    )
    assert (dict(found.nodes), dict(found.partitions)) == ({}, {})
    assert len(found.not_understood) == 4


def test_the_first_of_two_fields_counts() -> None:
    assert fields("NodeName=a State=IDLE OS=Linux 6.1 #1 Reason=State=DOWN [root@1]") == {
        "NodeName": "a", "State": "IDLE", "OS": "Linux 6.1 #1", "Reason": "State=DOWN [root@1]",
    }  # fmt: skip


def test_recorded_counts_and_jobs_that_are_hidden() -> None:
    counts, seen = read_counts(printed("sdiag")), picture()
    assert counts is not None
    found = machines()
    assert seen.hidden(counts, found) == 0
    true = Counts(counts.now_at, counts.now_at, 7, 4)
    assert seen.hidden(true, found) == 0
    partial = type(seen)(seen.at, {key: each for key, each in seen.jobs.items() if key in ("1", "2", "5")})
    assert partial.hidden(true, found) == 8
    assert partial.hidden(Counts(counts.now_at, counts.now_at - 400.0, 7, 4), found) == 0  # too old to tell
    assert partial.hidden(Counts(counts.now_at, math.nan, 7, 4), found) == 0
    assert read_counts("sdiag output at noon\n") is None


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=200),
    st.text(alphabet="NodeName=State CPUTt1[]-,\n", max_size=200),
)
def test_any_text_is_read_or_kept(one: str, other: str) -> None:
    for text in (one, other, f"NodeName={one} State=IDLE CPUTot={other}"):
        found = read_machines(text, text, text, text)
        assert all(each.cpus >= 0 for each in found.nodes.values())
        read_counts(text)
        read_settings(text)
