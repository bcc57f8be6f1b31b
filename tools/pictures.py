"""The two pictures of `docs/architecture.md` that follow something from module to module, drawn from tables of steps.

`python -m tools.reference` (``make docs``) writes them. A step is a box: what happens, and the modules in which;
a test says that each of these exists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDE, TALL, GAP, EDGE, RISE = 158, 84, 14, 17, 64  # px: a box, between boxes, around all, between rows
MOST = 24  # characters in a line


class Step(NamedTuple):
    """A box: its column and row, its title, the modules (paths under `src/betimes`), and what stands below these."""

    column: int
    row: int
    title: str
    modules: tuple[str, ...]
    notes: tuple[str, ...] = ()
    kind: str = "box"  # or core: the class of the style

    @property
    def lines(self) -> list[str]:
        """The text of the box: long paths over several lines, a folder once for all modules that follow in it."""
        lines: list[str] = []
        folder = ""
        for module in self.modules:
            within = f"{module.rpartition('/')[0]}/"
            pieces = _pieces(module.removeprefix(within) if within == folder else module)
            lines += pieces
            folder = within if len(pieces) > 1 or within == folder else ""
        return [*lines, *self.notes]


class Arrow(NamedTuple):
    """From a box to another by their titles, with corners where they are not neighbours."""

    start: str
    end: str
    label: str = ""


class Picture(NamedTuple):
    """A drawing with its description for those who cannot see it."""

    title: str
    description: str
    steps: tuple[Step, ...]
    arrows: tuple[Arrow, ...]


LIVE_JOB = Picture(
    "The life of a live job",
    "Above, from left to right: a request is admitted, the policy decides, the events are recorded, and only then "
    "effects are carried out. Below, from right to left: a supervisor runs the command, its report changes the job, "
    "which ends or is requeued for the next decision. A copy of the state, played forward after the decision, gives "
    "the promise, which is recorded with the job and held against the truth once the job has finished.",
    (
        Step(0, 0, "1 Request", ("service/api/routes/jobs.py", "service/runtime/submissions.py")),
        Step(
            1,
            0,
            "2 Admission",
            ("service/scheduling/admission.py",),
        ),
        Step(
            2,
            0,
            "3 Decision",
            ("service/scheduling/policy_engine.py", "service/engines/"),
            kind="core",
        ),
        Step(3, 0, "5 Record", ("service/runtime/controller.py", "service/store/")),
        Step(4, 0, "6 Effect", ("service/runtime/effect_runner.py", "service/executors/")),
        Step(0, 1, "10 Account", ("service/views/models.py",), ("promised against true",)),
        Step(1, 1, "4 Promise", ("service/runtime/promises.py", "service/runtime/quotes.py")),
        Step(2, 1, "9 End or requeue", ("service/scheduling/jobs.py",)),
        Step(3, 1, "8 Report", ("service/scheduling/reports.py",)),
        Step(4, 1, "7 Run", ("service/executors/supervision/supervisor.py",)),
    ),
    (
        Arrow("1 Request", "2 Admission"),
        Arrow("2 Admission", "3 Decision"),
        Arrow("3 Decision", "5 Record"),
        Arrow("5 Record", "6 Effect"),
        Arrow("6 Effect", "7 Run", "start, stop"),
        Arrow("7 Run", "8 Report"),
        Arrow("8 Report", "9 End or requeue"),
        Arrow("9 End or requeue", "3 Decision", "next turn"),
        Arrow("3 Decision", "4 Promise", "a copy, played"),
        Arrow("4 Promise", "10 Account"),
    ),
)

ESTIMATE = Picture(
    "The life of an estimate",
    "Two ways lead to the core. Live, an estimate on the command line or in a job file becomes a field of the job's "
    "specification, then the service's run-time estimate, then a request to the engine. Simulated, a column of the "
    "trace becomes what --sizes lets the scheduler believe, then an arrival. The core keeps the work in all and the "
    "work left. Three things correct it: it is doubled when outrun, learnt from finished jobs, replaced by progress.",
    (
        Step(0, 0, "--estimate 2h", ("cli/live/jobs/job_options.py", "service/spec/job_file.py")),
        Step(
            1,
            0,
            "JobSpec.runtime_estimate_s",
            ("service/spec/job_spec.py",),
            ("estimate_s,", "or steps x step_s"),
        ),
        Step(
            2,
            0,
            "Job.runtime_estimate_s",
            ("service/scheduling/beliefs.py",),
            ("told, last two, default",),
        ),
        Step(3, 0, "JobRequest.runtime_estimate_s", ("service/scheduling/engine_factory.py",)),
        Step(4, 0, "In the core", ("core/work.py",), ("size_s: work in all", "believed_left: to do"), "core"),
        Step(0, 1, "A trace's column", ("workload/readers/",)),
        Step(1, 1, "estimate_s", ("workload/workload.py",), ("a column, s; NaN: none",)),
        Step(2, 1, "Beliefs (--sizes)", ("twin/sizes.py",), ("true, estimate,", "last-two, noise")),
        Step(3, 1, "Arrival.believed", ("twin/pool/event_loop.py", "twin/nodes/event_loop.py")),
        Step(
            4,
            1,
            "Corrections",
            ("core/work.py", "core/pool/external_events.py"),
            ("doubled, learnt, reported",),
        ),
    ),
    (
        Arrow("--estimate 2h", "JobSpec.runtime_estimate_s"),
        Arrow("JobSpec.runtime_estimate_s", "Job.runtime_estimate_s"),
        Arrow("Job.runtime_estimate_s", "JobRequest.runtime_estimate_s"),
        Arrow("JobRequest.runtime_estimate_s", "In the core"),
        Arrow("A trace's column", "estimate_s"),
        Arrow("estimate_s", "Beliefs (--sizes)"),
        Arrow("Beliefs (--sizes)", "Arrival.believed"),
        Arrow("Arrival.believed", "In the core"),
        Arrow("Corrections", "In the core"),
    ),
)

PICTURES = {"life-of-a-live-job.svg": LIVE_JOB, "life-of-an-estimate.svg": ESTIMATE}

_STYLE = """\
    text { font-family: -apple-system, BlinkMacSystemFont, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; \
fill: #1f2937; font-size: 11px; }
    .card { fill: #fbfaf7; stroke: #d9d4c7; }
    .box { fill: #ffffff; stroke: #c9c3b4; stroke-width: 1.2; }
    .core { fill: #eef4fb; stroke: #2f6fb0; stroke-width: 1.6; }
    .title { font-size: 13px; font-weight: 600; }
    .soft { fill: #6b7280; }
    .wire { stroke: #6b7280; stroke-width: 1.6; fill: none; }
    .tip { fill: #6b7280; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6e8ee; }
      .card { fill: #161b26; stroke: #2f3747; }
      .box { fill: #1e2533; stroke: #3d475b; }
      .core { fill: #182a40; stroke: #5b9be0; }
      .soft { fill: #9aa4b5; }
      .wire { stroke: #9aa4b5; } .tip { fill: #9aa4b5; }
    }"""


def draw(picture: Picture) -> str:
    """The picture as SVG, legible on light and dark pages."""
    columns = 1 + max(step.column for step in picture.steps)
    rows = 1 + max(step.row for step in picture.steps)
    width = 2 * EDGE + columns * WIDE + (columns - 1) * GAP
    height = 2 * EDGE + rows * TALL + (rows - 1) * RISE
    by_title = {step.title: step for step in picture.steps}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-labelledby="t d">',
        f'  <title id="t">{escape(picture.title)}</title>',
        f'  <desc id="d">{escape(picture.description)}</desc>',
        f"  <style>\n{_STYLE}\n  </style>",
        f'  <rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="12"/>',
    ]
    for step in picture.steps:
        parts += _box(step)
    for arrow in picture.arrows:
        parts += _arrow(by_title[arrow.start], by_title[arrow.end], arrow.label)
    return "\n".join([*parts, "</svg>", ""])


def _pieces(path: str) -> list[str]:
    """A path in pieces that fit into a box, broken behind slashes."""
    pieces = [""]
    for part in re.findall(r"[^/]+/?", path):
        if pieces[-1] and len(pieces[-1]) + len(part) > MOST:
            pieces.append("")
        pieces[-1] += part
    return pieces


def _corner(step: Step) -> tuple[int, int]:
    return EDGE + step.column * (WIDE + GAP), EDGE + step.row * (TALL + RISE)


def _box(step: Step) -> Sequence[str]:
    x, y = _corner(step)
    return [
        f'  <rect class="{step.kind}" x="{x}" y="{y}" width="{WIDE}" height="{TALL}" rx="9"/>',
        f'  <text x="{x + 10}" y="{y + 22}" class="title">{escape(step.title)}</text>',
        *(
            f'  <text x="{x + 10}" y="{y + 41 + 16 * at}" class="soft">{escape(line)}</text>'
            for at, line in enumerate(step.lines)
        ),
    ]


def _arrow(start: Step, end: Step, label: str) -> Sequence[str]:
    """To a neighbour straight; from one column to the next in another row around the corner, into the box's side."""
    (x, y), (to_x, to_y) = _corner(start), _corner(end)
    if start.row == end.row:
        right = to_x > x
        from_x, tip_x, at_y = (x + WIDE, to_x, y + TALL // 2) if right else (x, to_x + WIDE, y + TALL // 2)
        back = -8 if right else 8
        return [
            f'  <path class="wire" d="M{from_x} {at_y}H{tip_x + back}"/>',
            f'  <path class="tip" d="M{tip_x + back} {at_y - 5}v10L{tip_x} {at_y}z"/>',
        ]
    down = to_y > y
    from_y, tip_y = (y + TALL, to_y) if down else (y, to_y + TALL)
    back, middle_y = (-8 if down else 8), (from_y + tip_y) // 2
    from_x, tip_x = x + WIDE // 2, to_x + WIDE // 2
    if from_x != tip_x:  # apart from the straight arrows of both boxes
        from_x, tip_x = (x + WIDE // 4, tip_x) if tip_x < from_x else (x + 3 * WIDE // 4, to_x + WIDE // 4)
    way = f"V{tip_y + back}" if tip_x == from_x else f"V{middle_y}H{tip_x}V{tip_y + back}"
    label_x, label_y = (
        (from_x + 8, middle_y + 4) if tip_x == from_x else (min(from_x, tip_x) + 24, middle_y - 6)
    )
    text = [f'  <text x="{label_x}" y="{label_y}" class="soft">{escape(label)}</text>'] if label else []
    return [
        f'  <path class="wire" d="M{from_x} {from_y}{way}"/>',
        f'  <path class="tip" d="M{tip_x - 5} {tip_y + back}h10L{tip_x} {tip_y}z"/>',
        *text,
    ]
