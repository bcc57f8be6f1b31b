"""The fields of squeue, sinfo and sacct: the tables of Slurm's manual, what is printed of each here, and how.

`-o`, `-O`, `--sort`, `--helpformat` and the reference page are made from these tables. A line has a field's name, its
letter (`.`: none) or its width (`sacct`), its head, the value here (`-`: there is none), and what Slurm prints for the
unknown (`''`: nothing; `~`: a blank). Source: the manual pages of Slurm 24.11, and what Slurm 22.05 prints.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from betimes.cli.slurm_values import OF_JOB, OF_NODES
from betimes.errors import InputError, NotAllowed, nearest
from betimes.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UNREADABLE = "N/A"  # what only a job's user and operators may read
WIDTH = 20  # of a field of -O, unless it is given
WIDEST, LEAST = 10_000, 9  # of `%#N`: as wide as the widest text, and no less than that

_SQUEUE = """
Account a ACCOUNT account (null)
AccrueTime . ACCRUE_TIME eligible N/A
admin_comment . ADMIN_COMMENT - (null)
AllocNodes . ALLOC_NODES alloc_node (null)
AllocSID . ALLOC_SID - 0
ArrayJobID F ARRAY_JOB_ID array_id N/A
ArrayTaskID K ARRAY_TASK_ID task_id N/A
AssocID . ASSOC_ID - 0
BatchFlag . BATCH_FLAG batch_flag 0
BatchHost B EXEC_HOST batch_host n/a
BoardsPerNode . BOARDS_PER_NODE - 0
BurstBuffer . BURST_BUFFER - (null)
BurstBufferState . BURST_BUFFER_STATE - (null)
Cluster . CLUSTER cluster N/A
ClusterFeature . CLUSTER_FEATURES - (null)
Command o COMMAND command (null)
Comment k COMMENT comment (null)
Contiguous O CONTIGUOUS - 0
Container . CONTAINER image (null)
ContainerID . CONTAINER_ID - (null)
Cores I CORES_PER_SOCKET - *
CoreSpec X CORE_SPEC - N/A
CPUFreq . CPU_FREQ - N/A
cpus-per-task . CPUS_PER_TASK cpus_per_task 1
cpus-per-tres . CPUS_PER_TRES - N/A
Deadline . DEADLINE - N/A
DelayBoot . DELAY_BOOT - 0:00
Dependency E DEPENDENCY dependency (null)
DerivedEC . DERIVED_EC - 0
EligibleTime . ELIGIBLE_TIME eligible N/A
EndTime e END_TIME end N/A
exit_code . EXIT_CODE exit_number 0
Feature f FEATURES features (null)
GroupID G GROUP gid 4294967294
GroupName g GROUP group nogroup
HetJobID . HET_JOB_ID - N/A
HetJobIDSet . HET_JOB_ID_SET - N/A
HetJobOffset . HET_JOB_OFFSET - N/A
JobArrayID i JOBID number N/A
JobID A JOBID job_id N/A
LastSchedEval . LAST_SCHED_EVAL - N/A
Licenses W LICENSES licenses (null)
MaxCPUs . MAX_CPUS cores 0
MaxNodes . MAX_NODES node_count 0
MCSLabel . MCSLABEL - (null)
mem-per-tres . MEM_PER_TRES - N/A
MinCpus c MIN_CPUS cpus_per_task 1
MinMemory m MIN_MEMORY memory 0
MinTime . TIME_MIN - 0:00
MinTmpDisk d MIN_TMP_DISK - 0
Name j NAME name N/A
Network . NETWORK - (null)
Nice y NICE nice 0
NodeList N NODELIST nodes ''
Nodes . NODELIST nodes ''
NTPerBoard . NTASKS_PER_BOARD - 0
NTPerCore . NTASKS_PER_CORE - N/A
NTPerNode . NTASKS_PER_NODE tasks_per_node 0
NTPerSocket . NTASKS_PER_SOCKET - N/A
NumCPUs C CPUS cores 0
NumNodes D NODES node_count 1
NumTasks . TASKS tasks 1
Origin . ORIGIN - NA
OriginRaw . ORIGIN_RAW - NA
OverSubscribe h OVER_SUBSCRIBE - OK
Partition P PARTITION partition (null)
PendingTime . PENDING_TIME pending_s 0
PlannedNodes Y SCHEDNODES - (null)
PreemptTime . PREEMPT_TIME - N/A
Prefer . PREFER - (null)
Priority p PRIORITY priority 0
PriorityLong Q PRIORITY priority 0
Profile . PROFILE - NotSet
QOS q QOS qos (null)
Reason r REASON reason None
ReasonList R NODELIST(REASON) why ''
Reboot . REBOOT - 0
ReqNodes n REQ_NODES - ''
ReqSwitch . REQ_SWITCH - 0
Requeue . REQUEUE requeue 0
Reservation v RESERVATION reservation (null)
ResizeTime . RESIZE_TIME - N/A
RestartCnt . RESTART_COUNT restarts 0
ResvPort . RESV_PORTS - N/A
SchedNodes . SCHEDNODES - (null)
SCT z S:C:T - *:*:*
SelectJobInfo s '' - ''
SiblingsActive . ACTIVE_SIBLINGS - NA
SiblingsActiveRaw . ACTIVE_SIBLINGS_RAW - NA
SiblingsViable . VIABLE_SIBLINGS - NA
SiblingsViableRaw . VIALBLE_SIBLINGS_RAW - NA
Sockets H SOCKETS_PER_NODE - *
SPerBoard . SOCKETS_PER_BOARD - 0
StartTime S START_TIME start N/A
State T STATE state N/A
StateCompact t ST short_state N/A
STDERR . STDERR stderr (null)
STDIN . STDIN stdin /dev/null
STDOUT . STDOUT stdout (null)
StepID . STEPID - N/A
StepName . NAME - N/A
StepState . STATE - N/A
SubmitTime V SUBMIT_TIME submit N/A
system_comment . SYSTEM_COMMENT - (null)
Threads J THREADS_PER_CORE - *
TimeLeft L TIME_LEFT left UNLIMITED
TimeLimit l TIME_LIMIT limit UNLIMITED
TimeUsed M TIME used 0:00
tres-alloc . TRES_ALLOC tres N/A
tres-bind . TRES_BIND - N/A
tres-freq . TRES_FREQ - N/A
tres-per-job . TRES_PER_JOB - N/A
tres-per-node b TRES_PER_NODE gres N/A
tres-per-socket . TRES_PER_SOCKET - N/A
tres-per-step . TRES_PER_STEP - N/A
tres-per-task . TRES_PER_TASK - N/A
UserID U UID uid 4294967294
UserName u USER user N/A
Wait4Switch . WAIT4SWITCH - 0:00
WCKey w WCKEY wckey (null)
WorkDir Z WORK_DIR workdir (null)
ExcNodes x EXC_NODES - ''
"""
_SINFO = """
AllocMem . ALLOCMEM alloc_memory 0
AllocNodes S ALLOCNODES - all
Available a AVAIL - up
Cluster V CLUSTER - N/A
Comment . COMMENT - (null)
Cores Y CORES - 1
CPUs c CPUS cpus 0
CPUsLoad O CPU_LOAD - N/A
CPUsState C CPUS(A/I/O/T) cpus_by_state 0/0/0/0
DefaultTime L DEFAULTTIME default_time n/a
Disk d TMP_DISK - 0
Extra . EXTRA - (null)
Features f AVAIL_FEATURES features (null)
features_act b ACTIVE_FEATURES features (null)
FreeMem e FREE_MEM free_memory 0
Gres G GRES gres (null)
GresUsed . GRES_USED gres_used (null)
Groups g GROUPS users all
MaxCPUsPerNode B MAX_CPUS_PER_NODE - UNLIMITED
Memory m MEMORY memory 0
NodeAddr o NODE_ADDR nodes ''
NodeAI A NODES(A/I) in_use 0/0
NodeAIOT F NODES(A/I/O/T) nodes_by_state 0/0/0/0
NodeHost n HOSTNAMES nodes ''
NodeList N NODELIST nodes ''
Nodes D NODES node_count 0
OverSubscribe h OVERSUBSCRIBE - NO
Partition P PARTITION partition_marked ''
PartitionName R PARTITION partition ''
Port . PORT - 0
PreemptMode M PREEMPT_MODE - OFF
PriorityJobFactor I PRIO_JOB_FACTOR priority 1
PriorityTier p PRIO_TIER - 1
Priority . PRIO_TIER - 1
Reason E REASON reason none
ResvName i RESERVATION - (null)
Root r ROOT - no
Size s JOB_SIZE - 1-infinite
SocketCoreThread z S:C:T sct 1:1:1
Sockets X SOCKETS cpus 0
StateCompact t STATE state N/A
StateLong T STATE long_state N/A
StateComplete . STATECOMPLETE long_state N/A
Threads Z THREADS - 1
Time l TIMELIMIT max_time infinite
TimeStamp H TIMESTAMP reason_at Unknown
User u USER reason_user Unknown
UserLong U USER reason_user Unknown
Version v VERSION version N/A
Weight w WEIGHT - 1
"""
_SACCT = """
Account 10 account ''
AdminComment 15 - ''
AllocCPUS 10 cores 0
AllocNodes 10 node_count 0
AllocTRES 10 tres ''
AssocID 7 - 0
AveCPU 10 - ''
AveCPUFreq 10 - ''
AveDiskRead 14 - ''
AveDiskWrite 14 - ''
AvePages 10 - ''
AveRSS 10 max_rss ''
AveVMSize 10 - ''
BlockID 16 - ''
Cluster 10 cluster ''
Comment 14 comment ''
Constraints 19 features ''
ConsumedEnergy 14 - ''
ConsumedEnergyRaw 17 - 0
Container 19 image ''
CPUTime 10 cpu_time 00:00:00
CPUTimeRAW 10 cpu_time_s 0
DBIndex -21 job_id 0
DerivedExitCode 15 - 0:0
Elapsed 10 elapsed 00:00:00
ElapsedRaw 10 elapsed_s 0
Eligible 19 eligible Unknown
End 19 ended Unknown
ExitCode 8 exit_code 0:0
Extra 14 - ''
FailedNode 8 - ''
Flags 19 - ''
GID 6 gid ''
Group 9 group ''
JobID -12 number ''
JobIDRaw -12 job_id ''
JobName 10 name ''
Layout 9 - ''
Licenses 10 licenses ''
MaxDiskRead 12 - ''
MaxDiskReadNode 15 - ''
MaxDiskReadTask 15 - ''
MaxDiskWrite 12 - ''
MaxDiskWriteNode 16 - ''
MaxDiskWriteTask 16 - ''
MaxPages 8 - ''
MaxPagesNode 12 - ''
MaxPagesTask 14 - ''
MaxRSS 10 max_rss ''
MaxRSSNode 10 - ''
MaxRSSTask 10 - ''
MaxVMSize 10 - ''
MaxVMSizeNode 14 - ''
MaxVMSizeTask 14 - ''
McsLabel 12 - ''
MinCPU 10 - ''
MinCPUNode 10 - ''
MinCPUTask 10 - ''
NCPUS 10 cores 0
NNodes 8 node_count 1
NodeList 15 nodes None~assigned
NTasks 8 tasks ''
Partition 10 partition ''
Planned 10 planned 00:00:00
PlannedCPU 10 planned_cpu 00:00:00
PlannedCPURAW 13 planned_cpu_s 0
Priority 10 priority 0
QOS 10 qos ''
QOSRAW 6 - 0
QOSREQ 10 qos ''
Reason 22 reason None
ReqCPUFreq 10 - Unknown
ReqCPUFreqGov 13 - Unknown
ReqCPUFreqMax 13 - Unknown
ReqCPUFreqMin 13 - Unknown
ReqCPUS 8 cores 0
ReqMem 10 memory 0
ReqNodes 8 - 1
ReqTRES 10 tres ''
Reservation 20 reservation ''
ReservationId 8 - ''
Reserved 10 planned 00:00:00
Restarts 8 restarts 0
ResvCPU 10 planned_cpu 00:00:00
ResvCPURAW 10 planned_cpu_s 0
Start 19 started Unknown
State 10 state ''
StdErr 20 stderr ''
StdIn 20 stdin /dev/null
StdOut 20 stdout ''
Submit 19 submit Unknown
SubmitLine 20 - ''
Suspended 10 - 00:00:00
SystemComment 15 - ''
SystemCPU 10 - 00:00:00
Timelimit 10 full_limit UNLIMITED
TimelimitRaw 10 limit_minutes UNLIMITED
TotalCPU 10 total_cpu 00:00:00
TRESUsageInAve 14 - ''
TRESUsageInMax 14 - ''
TRESUsageInMaxNode 18 - ''
TRESUsageInMaxTask 18 - ''
TRESUsageInMin 14 - ''
TRESUsageInMinNode 18 - ''
TRESUsageInMinTask 18 - ''
TRESUsageInTot 14 - ''
TRESUsageOutAve 15 - ''
TRESUsageOutMax 15 - ''
TRESUsageOutMaxNode 19 - ''
TRESUsageOutMaxTask 19 - ''
TRESUsageOutMin 15 - ''
TRESUsageOutMinNode 19 - ''
TRESUsageOutMinTask 19 - ''
TRESUsageOutTot 15 - ''
UID 6 uid ''
User 9 user ''
UserCPU 10 total_cpu 00:00:00
WCKey 10 wckey ''
WCKeyID 10 - 0
WorkDir 20 workdir ''
"""
TABLES = {"squeue": _SQUEUE, "sinfo": _SINFO, "sacct": _SACCT}
ACCOUNTING = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"
LONG_ACCOUNTING = (
    "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,"
    "AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AllocCPUS,Elapsed,"
    "State,ExitCode,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ReqMem,ConsumedEnergy,MaxDiskRead,"
    "MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,ReqTRES,"
    "AllocTRES,TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,TRESUsageInMin,TRESUsageInMinNode,"
    "TRESUsageInMinTask,TRESUsageInTot,TRESUsageOutMax,TRESUsageOutMaxNode,TRESUsageOutMaxTask,TRESUsageOutAve,"
    "TRESUsageOutTot"
)


class Field(NamedTuple):
    """A field of a command; value: the name of what is printed here, empty where there is none of its meaning."""

    name: str
    letter: str
    head: str
    width: int
    value: str
    unknown: str


def fields_of(command: str) -> list[Field]:
    """The fields of squeue, sinfo or sacct, in the order of the manual."""
    return [_field(line.split()) for line in TABLES[command].strip().splitlines()]


def _field(words: Sequence[str]) -> Field:
    name, letter, *head, value, unknown = (word.strip("'").replace("~", " ") for word in words)
    is_width = letter.lstrip("-").isdecimal()
    return Field(
        name,
        "" if is_width else letter.strip("."),
        head[0] if head else name,
        int(letter) if is_width else 0,
        value.strip("-"),
        unknown,
    )


class Columns:
    """Columns to print: of each a field, its width, and what follows.

    Widths: less than 0 is to the left, 0 as wide as the text, WIDEST as wide as the widest text.
    """

    def __init__(self, before: str = "") -> None:
        self.before = before
        self.columns: list[tuple[Field, int, str]] = []

    def lines(self, found: Sequence[Any], *, heads: bool) -> list[str]:
        """A line of each job or group of nodes."""
        rows = [[field.head for field, _, _ in self.columns]] if heads else []
        rows += [[text_of(field, each) for field, _, _ in self.columns] for each in found]
        widths = [
            width // WIDEST * max([LEAST, *(len(row[at]) for row in rows)]) if abs(width) == WIDEST else width
            for at, (_, width, _) in enumerate(self.columns)
        ]
        afters = [after for _, _, after in self.columns]
        return [self.before + "".join(map(_then, row, widths, afters)) for row in rows]


def text_of(field: Field, of: Any) -> str:
    """The text of a field of a job or a group of nodes, in one line and without control characters."""
    if not field.value:
        return field.unknown
    known: dict[str, Callable[[Any], str]] = OF_NODES if isinstance(of, tuple) else OF_JOB
    try:
        return printable(known[field.value](of)) or field.unknown
    except NotAllowed:
        return UNREADABLE


def by_letters(command: str, pattern: str) -> Columns:
    """Columns by a pattern such as `%.18i|%T`, or `%all`. Raises InputError."""
    by_letter = {each.letter: each for each in fields_of(command) if each.letter}
    pattern = pattern.replace("%all", "|".join(f"%{letter}" for letter in sorted(by_letter)))
    first, *parts = re.split(r"%(?=[.\d#]*[A-Za-z])", pattern)
    found = Columns(first)
    for part in parts:
        right, size, letter, after = re.findall(r"(\.?)([\d#]*)([A-Za-z])(.*)", part, re.DOTALL)[0]
        if letter not in by_letter:
            raise InputError(
                f"--format %{letter}: is not known; of {' '.join(f'%{one}' for one in by_letter)}"
            )
        width = (WIDEST if size == "#" else width_of(size)) * (1 if right else -1)
        found.columns.append((by_letter[letter], width, after))
    return found


def by_names(command: str, pattern: str) -> Columns:
    """Columns by a pattern such as `JobID:.18,State:|`, or `ALL`. Raises InputError."""
    known = {_plain(each.name): each for each in fields_of(command)}
    found = Columns()
    for part in pattern.split(","):
        name, colon, rest = part.strip().partition(":")
        right, size, after = re.findall(r"(\.?)(\d*)(.*)", rest, re.DOTALL)[0]
        width = width_of(size) if colon else WIDTH
        chosen = list(known.values()) if _plain(name) == "all" else [_named(name, known, "--Format")]
        found.columns += [(each, width * (1 if right else -1), after) for each in chosen]
    return found


def accounting(pattern: str) -> list[tuple[Field, int]]:
    """The columns of sacct by a pattern such as `JobID,State%20`, a name or the beginning of one. Raises InputError."""
    known = {_plain(each.name): each for each in fields_of("sacct")}
    found: list[tuple[Field, int]] = []
    for part in filter(None, pattern.split(",")):
        name, _, given = part.strip().partition("%")
        chosen = list(known.values()) if _plain(name) == "all" else [_named(name, known, "--format")]
        side = -1 if given.startswith("-") else 1
        found += [(each, side * width_of(given.lstrip("-")) if given else each.width) for each in chosen]
    return found


def sorted_by(command: str, keys: str, found: list[Any]) -> list[Any]:
    """Jobs or groups by letters of fields such as `P,-t`, a `-` for descending. Raises InputError."""
    by_letter = {each.letter: each for each in fields_of(command) if each.letter}
    for key in keys.split(",")[::-1]:
        letter = key.strip().lstrip("+-#")
        if letter not in by_letter:
            raise InputError(f"--sort {key}: is not known; of {' '.join(by_letter)}, with - for descending")
        field = by_letter[letter]
        found = sorted(
            found, key=lambda each: _rank(text_of(field, each)), reverse=key.strip().startswith("-")
        )
    return found


def width_of(text: str) -> int:
    """A width; a line is no longer than a thousand of them. Raises InputError."""
    if not re.fullmatch(r"\d{0,4}", text):
        raise InputError(f"--format: a width of {text[:20]!r} cannot be kept; give 9999 or less")
    return int(text or 0)


def padded(text: str, width: int) -> str:
    """A column of squeue and sinfo: cut, and to the left where the width is less than 0."""
    if not width:
        return text
    return text[:width].rjust(width) if width > 0 else text[:-width].ljust(-width)


def _then(text: str, width: int, after: str) -> str:
    return padded(text, width) + after


def _named(name: str, known: dict[str, Field], option: str) -> Field:
    plain = _plain(name)
    found = known.get(plain) or next(
        (each for key, each in known.items() if plain and key.startswith(plain)), None
    )
    if found is None:
        near = nearest(plain, known)
        hint = f"did you mean {known[near[0]].name}?" if near else "--helpformat lists the fields"
        raise InputError(f"{option} {name[:40]}: is not known; {hint}")
    return found


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


def _rank(text: str) -> tuple[Any, ...]:
    """Numbers and spans by their size, and all else by its letters."""
    span = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if span:
        days, hours, minutes, seconds = (int(part or 0) for part in span.groups())
        return (((days * 24 + hours) * 60 + minutes) * 60 + seconds,)
    parts = re.split(r"(\d+)", text)
    return (0, *((int(part) if number % 2 else part) for number, part in enumerate(parts)))
