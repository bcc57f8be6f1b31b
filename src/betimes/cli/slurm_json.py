"""The `--json` of squeue and sacct, in the shape of Slurm's data parser v0.0.42, as its OpenAPI document has it."""

from __future__ import annotations

import json
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from betimes.cli.slurm_jobs import (
    PARTITION,
    VERSION,
    cores,
    elapsed_s,
    node_count,
    node_list,
    reason_of,
    state_of,
    tres,
)
from betimes.cli.slurm_values import (
    OF_JOB,
    account_here,
    expected_start,
    file_of,
    gpus,
    group_of,
    limit_s,
    most,
    planned_s,
)
from betimes.errors import NotAllowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from betimes.cli.slurm_jobs import Listed

_UNKNOWN = {
    "": "admin_comment array_task_string batch_features burst_buffer burst_buffer_state cluster_features container_id "
    "cpus_per_tres cron excluded_nodes extra failed_node federation_origin federation_siblings_active "
    "federation_siblings_viable het_job_id_set mail_user mcs_label memory_per_tres network prefer required_nodes "
    "scheduled_nodes selinux_context state_description system_comment tres_bind tres_freq tres_per_job "
    "tres_per_socket tres_per_task",
    "[]": "exclusive flags gres_detail job_size_str mail_type profile shared show_flags",
    "0": "association_id core_spec maximum_switch_wait_time minimum_switches nice sockets_per_board thread_spec",
    "false": "contiguous reboot",
    "unset": "billable_tres cores_per_socket cpu_frequency_governor cpu_frequency_maximum cpu_frequency_minimum "
    "deadline delay_boot het_job_id het_job_offset last_sched_evaluation max_cpus max_nodes memory_per_cpu "
    "minimum_tmp_disk_per_node pre_sus_time preempt_time preemptable_time resize_time sockets_per_node suspend_time "
    "tasks_per_board tasks_per_core tasks_per_node tasks_per_socket tasks_per_tres threads_per_core time_minimum",
}
"""Keys of `squeue --json` without meaning here, by what Slurm has there where nothing is set."""


def document(command: str, found: Sequence[Listed]) -> str:
    """All of `squeue --json` or `sacct --json`; of jobs that only others may read, what a list has."""
    jobs = [(_accounted if command == "sacct" else _queued)(job) for job in found]
    major, minor, micro = VERSION.split(".")
    whole = {
        "jobs": jobs,
        **(
            {"last_backfill": _number(None), "last_update": _number(time.time())}
            if command == "squeue"
            else {}
        ),
        "meta": {
            "plugin": {
                "type": f"openapi/{'slurmdbd' if command == 'sacct' else 'slurmctld'}",
                "name": "Betimes",
                "data_parser": "data_parser/v0.0.42",
                "accounting_storage": "",
            },
            "command": [command],
            "slurm": {
                "version": {"major": major, "minor": minor, "micro": micro},
                "release": VERSION,
                "cluster": PARTITION,
            },
        },
        "errors": [],
        "warnings": [],
    }
    return json.dumps(whole, indent=2)


def _number(value: float | None, *, is_infinite: bool = False) -> dict[str, Any]:
    """A number that may be missing, or without limit."""
    return {"set": value is not None, "infinite": is_infinite, "number": 0 if value is None else round(value)}


def _limit(job: Listed) -> dict[str, Any]:
    limit = limit_s(job)
    return _number(None, is_infinite=True) if limit is None else _number(limit / 60)


def _text(job: Listed, value: str) -> str:
    return OF_JOB[value](job)


def _code(code: str, state: str) -> dict[str, Any]:
    """A code and signal such as `1:0`."""
    number, _, by = code.partition(":")
    try:
        name = signal.Signals(int(by)).name.removeprefix("SIG")
    except ValueError:
        name = ""
    status = (
        "SIGNALED" if int(by) else "ERROR" if int(number) else "SUCCESS" if state != "PENDING" else "PENDING"
    )
    return {
        "status": [status],
        "return_code": _number(int(number)),
        "signal": {"id": _number(int(by) or None), "name": name},
    }


def _codes(job: Listed) -> dict[str, Any]:
    state = state_of(job)
    try:
        code = _text(job, "exit_code")
    except NotAllowed:
        code = "1:0"
    return {"derived_exit_code": _code("0:0", state), "exit_code": _code(code, state)}


def _ids(job: Listed) -> tuple[int, int]:
    found = account_here(job.user)
    return (4294967294, 4294967294) if found is None else (found.pw_uid, found.pw_gid)


def _priority(job: Listed) -> int:
    return 0 if job.status == "held" else max(0, job.spec.get("priority", 0))


def _queued(job: Listed) -> dict[str, Any]:
    """A job of `squeue --json`."""
    empty: dict[str, Any] = {"": "", "[]": [], "0": 0, "false": False, "unset": _number(None)}
    uid, gid = _ids(job)
    estimate = job.estimate or {"finish_at": None}
    known = {name: empty[kind] for kind, names in _UNKNOWN.items() for name in names.split()} | {
        "account": _text(job, "account"),
        "array_job_id": _number(job.array_id or 0),
        "array_task_id": _number(job.array_index),
        "array_max_tasks": _number(0),
        "cluster": PARTITION,
        "comment": _text(job, "comment"),
        **_codes(job),
        "end_time": _number(job.finished_at or estimate["finish_at"]),
        "group_id": gid,
        "group_name": group_of(job.user),
        "hold": job.status == "held",
        "job_id": job.job_id,
        "job_state": [state_of(job)],
        "name": job.name,
        "oversubscribe": True,
        "partition": _text(job, "partition"),
        "power": {"flags": []},
        "qos": _text(job, "qos"),
        "restart_cnt": max(0, job.attempt - 1),
        "resv_name": _text(job, "reservation"),
        "start_time": _number(expected_start(job)),
        "state_reason": reason_of(job),
        "submit_time": _number(job.submitted_at),
        "user_id": uid,
        "user_name": job.user,
        "wckey": _text(job, "wckey"),
    }
    try:
        spec, count = job.spec, cores(job)
        known |= {
            "accrue_time": _number(spec.get("begin_at") or job.submitted_at),
            "allocating_node": _text(job, "alloc_node"),
            "batch_flag": _text(job, "batch_flag") == "1",
            "batch_host": _text(job, "batch_host"),
            "command": _text(job, "command"),
            "container": _text(job, "image"),
            "cpus": _number(count),
            "cpus_per_task": _number(int(_text(job, "cpus_per_task") or 1)),
            "current_working_directory": _text(job, "workdir"),
            "dependency": _text(job, "dependency"),
            "eligible_time": _number(
                None if job.status == "held" else spec.get("begin_at") or job.submitted_at
            ),
            "features": _text(job, "features"),
            "licenses": _text(job, "licenses"),
            "memory_per_node": _number(spec.get("memory_gib", 0.0) * 1024),
            "minimum_cpus_per_node": _number(int(_text(job, "cpus_per_task") or 1)),
            "node_count": _number(job.node_count),
            "nodes": _text(job, "nodes"),
            "priority": _number(_priority(job)),
            "requeue": spec.get("requeue", True),
            "standard_error": file_of(job, "error"),
            "standard_input": "/dev/null",
            "standard_output": file_of(job, "output"),
            "tasks": _number(int(_text(job, "tasks") or 1)),
            "time_limit": _limit(job),
            "tres_alloc_str": tres(job, spec) if job.started_at else "",
            "tres_per_node": _text(job, "gres"),
            "tres_req_str": tres(job, spec),
        }
    except NotAllowed:
        known["nodes"] = node_list(job.there.by_job.get(job.job_id, []))
    return known


def _span(seconds: float | None) -> dict[str, int]:
    return {"seconds": int(seconds or 0), "microseconds": round((seconds or 0.0) % 1 * 1e6)}


def _accounted(job: Listed) -> dict[str, Any]:
    """A job of `sacct --json`."""
    times = {
        "elapsed": elapsed_s(job),
        "eligible": round(job.submitted_at),
        "end": round(job.finished_at or 0),
        "planned": _number(planned_s(job)),
        "start": round(job.started_at or 0),
        "submission": round(job.submitted_at),
        "suspended": 0,
        "system": _span(None),
        "limit": _number(None),
        "total": _span(None),
        "user": _span(None),
    }
    known = {
        "account": _text(job, "account"),
        "allocation_nodes": 0,
        "array": {
            "job_id": job.array_id or 0,
            "limits": {"max": {"running": {"tasks": 0}}},
            "task_id": _number(job.array_index),
            "task": "",
        },
        "association": {
            "account": _text(job, "account"),
            "cluster": PARTITION,
            "partition": "",
            "user": job.user,
            "id": 0,
        },
        "block": "",
        "cluster": PARTITION,
        "comment": {"administrator": "", "job": _text(job, "comment"), "system": ""},
        "constraints": "",
        "container": "",
        **_codes(job),
        "extra": "",
        "failed_node": "",
        "flags": [],
        "group": group_of(job.user),
        "het": {"job_id": 0, "job_offset": _number(None)},
        "hold": job.status == "held",
        "job_id": job.job_id,
        "kill_request_user": "",
        "licenses": "",
        "mcs": {"label": ""},
        "name": job.name,
        "nodes": "",
        "partition": _text(job, "partition"),
        "priority": _number(None),
        "qos": _text(job, "qos"),
        "qosreq": _text(job, "qos"),
        "required": {"CPUs": 0, "memory_per_cpu": _number(None), "memory_per_node": _number(None)},
        "reservation": {"id": 0, "name": _text(job, "reservation"), "requested": ""},
        "restart_cnt": max(0, job.attempt - 1),
        "script": "",
        "state": {"current": [state_of(job)], "reason": reason_of(job)},
        "stderr": "",
        "stdin": "/dev/null",
        "stdout": "",
        "steps": [],
        "submit_line": "",
        "time": times,
        "tres": {"allocated": [], "requested": []},
        "used_gres": "",
        "user": job.user,
        "wckey": {"wckey": _text(job, "wckey"), "flags": []},
        "working_directory": "",
    }
    with suppress(NotAllowed):  # the rest is for its user and operators
        spec, count, used_s = job.spec, cores(job), most(job, "cpu_s")
        asked = _resources(job, count)
        times |= {
            "eligible": 0 if job.status == "held" else round(spec.get("begin_at") or job.submitted_at),
            "limit": _limit(job),
            "total": _span(used_s),
            "user": _span(used_s),
        }
        known |= {
            "allocation_nodes": job.node_count if job.nodes else 0,
            "constraints": _text(job, "features"),
            "container": _text(job, "image"),
            "licenses": _text(job, "licenses"),
            "nodes": _text(job, "nodes") or "None assigned",
            "priority": _number(_priority(job)),
            "required": {
                "CPUs": count,
                "memory_per_cpu": _number(None),
                "memory_per_node": _number(spec.get("memory_gib", 0.0) * 1024),
            },
            "stderr": file_of(job, "error"),
            "stdout": file_of(job, "output"),
            "tres": {"allocated": asked if job.started_at else [], "requested": asked},
            "working_directory": _text(job, "workdir"),
        }
    return known


def _resources(job: Listed, count: int) -> list[dict[str, Any]]:
    """The resources that a job asks for, each with Slurm's number of its kind."""
    memory_mib = round(job.spec.get("memory_gib", 0.0) * job.max_units * 1024)
    amounts = (("cpu", "", 1, count), ("mem", "", 2, memory_mib),
               ("node", "", 4, node_count(job.spec, ())), ("billing", "", 5, count),
               ("gres", "gpu", 1001, round(gpus(job))))  # fmt: skip
    return [
        {"type": kind, "name": name, "id": number, "count": amount}
        for kind, name, number, amount in amounts
        if amount
    ]
