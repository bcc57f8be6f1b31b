"""Reference pages of the live service, from what its code declares."""

from __future__ import annotations

import re
import tempfile
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from prometheus_client.metrics import MetricWrapperBase

from betimes.cli.slurm_fields import TABLES, fields_of
from betimes.cli.slurm_options import GRAMMARS
from betimes.service.access.auth import RunTokens
from betimes.service.access.unix_users import LOGIN_PATH
from betimes.service.executors.ray.executor import VARIABLES as ON_A_CLUSTER
from betimes.service.machines import cloud_file
from betimes.service.runtime.clock import Clock
from betimes.service.runtime.controller import Controller
from betimes.service.runtime.launches import KEPT, SHARED, VARIABLES, Launches
from betimes.service.runtime.metrics import Metrics
from betimes.service.scheduling.engine_factory import Settings
from betimes.service.scheduling.fold import KINDS
from betimes.service.scheduling.job_states import Status, diagram
from betimes.service.scheduling.kind import ACCOUNT, MOVE, PLACES, PREEMPTION, REASON, SPEC, Kind
from betimes.service.scheduling.reasons import CODES
from betimes.service.scheduling.run_ends import HOW, STOPS, TABLE
from betimes.service.store.store import Store

Table = Callable[[tuple[str, ...], Iterable[tuple[str, ...]]], str]

_STATUSES = {
    Status.HELD: "a user keeps it from starting (`betimes hold`)",
    Status.BLOCKED: "it waits for another job, for its turn in an array, or for the delay before a retry",
    Status.QUEUED: "the policy may start it",
    Status.RUNNING: "a run of it is on its units",
    Status.STOPPING: "its run was told to stop, and still holds its units",
    Status.FINISHED: "its command exited with 0",
    Status.FAILED: "its command failed, and no retry is left",
    Status.CANCELLED: "a user ended it, or the job that it was to follow did not succeed",
}

_REPORT = """\
<!-- not run: tests/docs/test_service_pages.py runs it in a job -->

```bash
curl -sS -X POST "$BETIMES_URL/api/v1/jobs/$BETIMES_JOB_ID/progress" \\
  -H "Authorization: Bearer $BETIMES_RUN_TOKEN" -H "Content-Type: application/json" \\
  -d "{\\"attempt\\": $BETIMES_ATTEMPT, \\"done\\": 300, \\"total\\": 1000}"
```"""


def life_of_a_live_job_page(table: Table) -> str:
    """Statuses, legal moves, and why a job may wait."""
    return "\n\n".join(
        (
            "# The life of a live job",
            "What can happen to a job of the service in each of its statuses. Whatever is not drawn is refused, with "
            "an error that names the job and its status. Through which modules a job goes on its way is drawn in "
            "[the architecture](../architecture.md#the-life-of-a-live-job).",
            table(("status", "meaning"), ((f"`{name}`", _STATUSES[name]) for name in Status)),
            f"```mermaid\n{diagram()}```",
            "A job may run several times: it is preempted and resumes, loses its node, is restarted at another width, "
            "or fails and is retried. Each time is a *run*, numbered from 1 (`BETIMES_ATTEMPT`).",
            "## After a run",
            "What follows for the job when nothing of the run is left. A job that may not be queued again (`requeue = "
            "false`) has failed instead.",
            table(
                ("how it ended", "", "while nobody had asked it to stop"),
                ((f"`{how}`", text, f"{TABLE[None][how]}") for how, text in HOW.items()),
            ),
            "What ended before it could be stopped has ended by itself; else:",
            table(
                ("why it was stopping", "", "once it is stopped, or lost"),
                (
                    (f"`{why}`", text, f"{TABLE[why]['stopped']}")
                    for why, text in STOPS.items()
                    if why is not None
                ),
            ),
            "## Reasons",
            "Why a job waits, stopped or failed. `betimes job ID` and `betimes jobs` show the sentence; "
            "`--json` has the code, and the evidence beside it.",
            table(("code", "meaning"), ((f"`{code}`", text) for code, text in CODES.items())),
        )
    )


def metrics_page(table: Table) -> str:
    """The metrics, and how Prometheus gets them."""
    with tempfile.TemporaryDirectory() as folder:
        launches = Launches(Path(folder), "", RunTokens(b"").issue)
        controller = Controller(Store.in_memory(folder), Clock(0.0), launches, Settings(), 3600.0)
        declared = [
            each for each in vars(Metrics(controller)).values() if isinstance(each, MetricWrapperBase)
        ]
    rows: list[tuple[str, ...]] = []
    for each in declared:
        (family,) = each.describe()
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = ", ".join(f"`{label}`" for label in each._labelnames)
        rows.append((f"`{name}`", family.type, labels, family.documentation))
    return "\n\n".join(
        (
            "# Metrics",
            "`GET /metrics` gives these figures in Prometheus's text format. Counters and histograms begin at 0 when "
            "the service starts. No metric has a label for a job, a user or a node, so that their number stays the "
            "same. [How to have Prometheus read them](../how-to/observe-the-service.md#metrics); "
            "[a dashboard for Grafana](../../deploy/grafana.json) shows them.",
            table(("metric", "type", "labels", "meaning"), rows),
        )
    )


def events_page(table: Table) -> str:
    """The kinds of events."""
    return "\n\n".join(
        (
            "# Events",
            "The service's log: every input and every decision, numbered without gaps, never changed. `betimes events` "
            "prints it, `betimes events --follow` goes on with what happens, and `GET /api/v1/events` streams it "
            "(server-sent events; `Last-Event-ID` resumes). The tables of jobs, runs, nodes and quotes follow from it.",
            "An event has an `event_id`, an instant (`at`, seconds since 1970), a `kind`, a `cause` (`user:NAME`, "
            "`operator`, `policy`, `executor`, `timer`, `progress`, `node`, `cloud`, `recovery`), a job or node where "
            "it is about one, a `text` in words, and `data`.",
            "Of the fields of `data`, those in brackets are there only where they are known. Times are in seconds, and "
            "instants (`_at`) in seconds since 1970. Fields that many kinds have are "
            + "; ".join(f"`{name}`: {_in_words(each)}" for name, each in _SHARED.items())
            + ".",
            table(
                ("kind", "what it says", "`data`"),
                ((f"`{name}`", kind.meaning, _fields(kind)) for name, kind in KINDS.items()),
            ),
        )
    )


_SHARED = {
    "account": ACCOUNT,
    "move": MOVE,
    "places": PLACES,
    "preemption": PREEMPTION,
    "reason": REASON,
    "spec": SPEC,
}


def _fields(kind: Kind[Any]) -> str:
    known = [_field(name, each) for name, each in kind.data.items()]
    return ", ".join(known + [f"[{_field(name, each)}]" for name, each in kind.more.items()])


def _field(name: str, annotation: Any) -> str:
    return f"`{name}`" if annotation == _SHARED.get(name) else f"`{name}` {_in_words(annotation)}"


def _in_words(annotation: Any) -> str:
    """The type of a field, and what it holds where that is said."""
    if get_origin(annotation) is Annotated:
        return f"{_in_words(annotation.__origin__)} ({annotation.__metadata__[0]})"
    text = (
        annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else f"{annotation}"
    )
    return text.replace("typing.", "").replace("[str, Any]", "").replace("|", "or")


def job_environment_page(table: Table) -> str:
    """The variables in a job's environment."""
    kept = ", ".join(f"`{name}`" for name in KEPT)
    return "\n\n".join(
        (
            "# A job's environment",
            "A job's command finds these variables:",
            table(("variable", "value"), ((f"`{name}`", text) for name, text in VARIABLES.items())),
            f"Beside them it has those of `--env` (or `env` in a job file), and from the service itself {kept}, where "
            "the service has them; a job of another Unix user has only "
            f"{', '.join(f'`{name}`' for name in SHARED)} of these from the service, and the others of the user's "
            f"account (`PATH` is `{LOGIN_PATH}`). Nothing else of yours or of the service reaches it: `--env NAME` "
            "hands over a variable as it is where you submit.",
            "## On a cluster",
            "With `betimes up --ray` a job may hold units on several nodes: its command is started once on each. Its "
            "processes find these variables too, also where there is one node only, and so do jobs under `--fleet`; "
            "under `--fleet local` every address is 127.0.0.1, and the names tell machines apart:",
            table(("variable", "value"), ((f"`{name}`", text) for name, text in ON_A_CLUSTER.items())),
            "## Signals",
            table(
                ("signal", "when"),
                (
                    (
                        "SIGTERM",
                        "the job is to stop: it is preempted, restarted, cancelled or over its limit",
                    ),
                    ("SIGKILL", "the grace period (`--grace`) is over and it has not stopped"),
                    ("SIGUSR1", "its time limit is near (`--warn`)"),
                    ("SIGUSR2", "it holds another number of units, if it has registered a handler for that"),
                ),
            ),
            "Whatever code a job exits with after SIGTERM, it counts as stopped, not as failed, and goes on later from "
            "what it has left in its checkpoint folder.",
            "## Progress",
            "A Python loop reports by `betimes.progress`, and learns of another width by `betimes.on_resize`:",
            "```python\nimport betimes\n\nfor batch in betimes.progress(range(1000)):\n    ...\n```",
            "Any other program by one call, as often as it likes:",
            _REPORT,
        )
    )


def cloud_files_page(table: Table) -> str:
    """The file that describes a made-up cloud."""
    example = textwrap.dedent((cloud_file.__doc__ or "").partition("::")[2]).strip()
    return "\n\n".join(
        (
            "# Cloud files",
            "`betimes up --cloud FILE.toml` gives the service a cloud that is made up, to try out what renting does: "
            "its machines boot, cost money, run out, and are taken away, and jobs on them only take time. The file is "
            "a [cluster file](cluster-files.md), or a catalogue by its name, and its `[[offers]]` can be rented; "
            "`--cloud` leaves its `[[nodes]]` alone, and `--cluster FILE.toml` makes virtual nodes of those too. A "
            "wrong value is refused with file, table and field.",
            f"```toml\n{example}\n```",
            "What is drawn by lot - boot times, failures, when a machine is taken away - follows from the seed, the "
            "type and the machine's number, so that a second run sees the same.",
            "Files with `[[types]]` in place of `[[offers]]`, as they were called before, are read too: `usd_per_h` is "
            "0 by default, every second begun is charged for, and `reclaims_per_h` says how often a machine is taken "
            "away.",
            table(
                ("what happens", "what the service does"),
                (
                    ("a machine is asked for", "its node is `booting`; the log says by whom"),
                    (
                        "none is left of its type, or of the quota",
                        "the request is refused, with what there is",
                    ),
                    ("it has booted", "its node is `up`, and jobs start on it"),
                    ("it does not boot", "its node goes"),
                    (
                        "the cloud gives notice",
                        "its node drains: nothing more starts on it; two seconds and its grace period before the end, "
                        "a job is stopped (SIGTERM), and waits again (`reclaimed`)",
                    ),
                    (
                        "the cloud takes it away",
                        "its jobs wait again (`reclaimed`), their attempt counted, and its node goes",
                    ),
                    ("its node has drained", "it is given back, and its node goes"),
                ),
            ),
        )
    )


def slurm_fields_page(table: Table) -> str:
    """The fields and options of squeue, sacct and sinfo."""
    parts = [
        "# Fields and options of Slurm's commands",
        "Every field of the manual pages of Slurm 24.11 is known to the [commands](../how-to/from-slurm.md) of the "
        "same name. Where nothing has its meaning here, what Slurm prints for the unknown is printed. A job's comment, "
        "account, partition, QOS, reservation and wckey are its labels.",
    ]
    for command in TABLES:
        options = [
            re.split("[=?!/]", each)[0] for each in GRAMMARS[command].options.split() if "!" not in each
        ]
        refused = [re.split("[=?!/]", each)[0] for each in GRAMMARS[command].options.split() if "!" in each]
        fields = fields_of(command)
        unknown = [f"`{each.name}`" for each in fields if not each.value]
        parts += [
            f"## {command}",
            f"Options: {', '.join(f'`--{name}`' for name in options)}. "
            f"Refused, with what to do instead: {', '.join(f'`--{name}`' for name in refused)}.",
            table(
                ("field", "width" if command == "sacct" else "letter", "what is printed", "unknown"),
                [
                    (
                        f"`{each.name}`",
                        str(each.width) if each.width else f"`%{each.letter}`" if each.letter else "",
                        each.value.replace("_", " "),
                        f"`{each.unknown}`" if each.unknown else "",
                    )
                    for each in fields
                    if each.value
                ],
            ),
            f"Always as the unknown: {', '.join(unknown)}.",
        ]
    return "\n\n".join(parts)


PAGES: dict[str, Callable[[Table], str]] = {
    "slurm-fields.md": slurm_fields_page,
    "metrics.md": metrics_page,
    "life-of-a-live-job.md": life_of_a_live_job_page,
    "events.md": events_page,
    "job-environment.md": job_environment_page,
    "cloud-files.md": cloud_files_page,
}
