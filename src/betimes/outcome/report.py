"""The results of a simulation as one page that needs no network: figures with their words explained, and pictures."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from betimes.errors import InputError
from betimes.outcome.tables import Summary, short_names, shown_figures

MEANINGS = {
    "jobs": "Jobs that are counted.",
    "finished": "Jobs that finished.",
    "unfinished": "Jobs that had not finished when nothing more could happen.",
    "refused": "Jobs that the machine could never hold.",
    "killed": "Jobs ended at their estimate.",
    "predicted": "Jobs that were promised an end.",
    "makespan_s": "From the first submission to the last finish.",
    "jct_mean_s": "Job completion time: from a job's submission to its finish. Mean over all jobs.",
    "jct_over_best": "Mean completion time, over the smallest among these policies.",
    "jct_p50_s": "Completion time that half of the jobs stay below.",
    "jct_p99_s": "Completion time that 99 % of the jobs stay below.",
    "wait_mean_s": "From a job's submission to its first start. Mean over all jobs.",
    "slowdown_mean": "Completion time over the time that the job would take alone: 1 is no delay at all. Mean.",
    "slowdown_p50": "Slowdown that half of the jobs stay below.",
    "slowdown_p95": "Slowdown that 95 % of the jobs stay below.",
    "utilisation_frac": "Share of the machine that jobs held, until the last finish; of several resources the busiest.",
    "utilisation_gpu_frac": "Share of the GPUs that jobs held.",
    "utilisation_cpu_frac": "Share of the cores that jobs held.",
    "utilisation_memory_frac": "Share of the memory that jobs held.",
    "preemptions": "How often a running job had to leave for another one.",
    "preempted_jobs": "Jobs that had to leave at least once.",
    "reschedule_p50_s": "From the end of a preempted run to the next start of the job; half stay below.",
    "reschedule_p95_s": "From the end of a preempted run to the next start of the job; 95 % stay below.",
    "pred_err_mean_frac": "How far the promised completion time was off, as a share of it. Mean over all promises.",
    "pred_err_p90_frac": "Prediction error that 90 % of the promises stay below.",
    "pred_err_p99_frac": "Prediction error that 99 % of the promises stay below.",
    "pred_bias_mean_frac": "Mean of the signed error: above 0, jobs took longer than promised.",
    "pred_cover_frac": "Share of the jobs done within the interval that they were promised.",
    "pred_width_p50_frac": "Width of the promised interval, as a share of the promised completion time. Median.",
    "pred_err_p50_frac": "Prediction error that half of the promises stay below.",
    "pred_score": "Width of the intervals, and a penalty for what falls outside, in logarithms: smaller is better.",
    "pred_far_late_frac": "Share of the jobs that took over five times as long as promised, and over an hour longer.",
    "pred_far_early_frac": "Share of the jobs done in under a fifth of what was promised, and over an hour earlier.",
    "unfairness_mean_frac": "How much later jobs finished than with an equal share of the machine. Mean.",
    "unfairness_p99_frac": "Unfairness that 99 % of the jobs stay below.",
    "unfairness_fair_run_max_frac": "How much later a job finished than under max-min shares. The worst job.",
    "slowdown_p95_trial": "Slowdown that 95 % of the trial jobs stay below.",
    "slowdown_p50_best_effort": "Slowdown that half of the best-effort jobs stay below.",
    "slowdown_p95_best_effort": "Slowdown that 95 % of the best-effort jobs stay below.",
    "cost_usd": "What owned and rented machines cost.",
}
"""The meaning of each figure of a table, by its key in a summary."""

_STYLE = """
:root{color-scheme:light dark;--ink:#1c1c1c;--back:#fff;--soft:#666;--line:#ddd;--best:#00634a}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--back:#16181b;--soft:#aaa;--line:#3a3d42;--best:#5fd0ae}}
body{font-family:system-ui,sans-serif;margin:1.5rem auto;padding:0 1rem;max-width:80rem;color:var(--ink);
background:var(--back)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);text-align:right;vertical-align:top}
th:first-child,td:first-child,td:last-child,th:last-child{text-align:left}
td:last-child{color:var(--soft);min-width:18rem}.best{font-weight:700;color:var(--best)}
.beside{display:flex;flex-wrap:wrap;gap:1rem}
figure{margin:0;max-width:100%}figure img{max-width:100%;height:auto;box-sizing:border-box}
figure img{background:#fff;border:1px solid var(--line)}
figcaption,.soft{color:var(--soft);font-size:.9rem}code{word-break:break-all}
"""


_PX_A_PT = 80 / 72
"""Pixels of the page to a point of a picture: the same for all, so that their letters have one size."""


@dataclass(frozen=True)
class Picture:
    """An SVG file with a PNG of the same name beside it; the page has the smaller one."""

    path: Path
    heading: str
    caption: str


def write(
    path: str | Path, about: str, summaries: Sequence[Summary], pictures: Sequence[Picture], made: str
) -> None:
    """Write the page; `about`: the workload and the machine in a line; `made`: by what.

    Raises InputError where a file cannot be read or written.
    """
    policies = [str(summary["policy"]) for summary in summaries]
    names = short_names(policies)
    title = f"{names[0]}: {about}" if len(names) == 1 else f"{len(names)} policies: {about}"
    longer = [
        f"<li>{html.escape(name)} = <code>{html.escape(policy)}</code></li>"
        for name, policy in zip(names, policies, strict=True)
        if name != policy
    ]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="soft">{html.escape(made)}</p>',
        f"<ul>{''.join(longer)}</ul>" if longer else "",
        "<h2>Figures</h2>",
        _table(names, summaries),
    ]
    try:
        for heading in dict.fromkeys(picture.heading for picture in pictures):
            shown = [_figure(picture) for picture in pictures if picture.heading == heading]
            parts += [f"<h2>{html.escape(heading)}</h2>", f'<div class="beside">{"".join(shown)}</div>']
        Path(path).write_text("\n".join(filter(None, [*parts, "</body></html>", ""])), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: the report cannot be written ({error.strerror or error}); choose another place"
        ) from error


def _table(names: Sequence[str], summaries: Sequence[Summary]) -> str:
    """A row a figure, a column a policy, and what the figure means."""
    figures = shown_figures(summaries)
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    lines = [f'<tr><th scope="col">Figure</th>{heads}<th scope="col">What it means</th></tr>']
    for figure in figures:
        cells = "".join(
            f'<td class="best">{html.escape(cell)} *</td>' if best else f"<td>{html.escape(cell)}</td>"
            for cell, best in zip(figure.cells, figure.best, strict=True)
        )
        name = html.escape(figure.column.title + (f" ({figure.unit})" if figure.unit else ""))
        meaning = html.escape(MEANINGS[figure.column.key])
        lines.append(f'<tr><th scope="row">{name}</th>{cells}<td>{meaning}</td></tr>')
    starred = '<p class="soft">* best of its row</p>' if any(any(each.best) for each in figures) else ""
    return f'<div class="wide"><table>{"".join(lines)}</table></div>{starred}'


def _figure(picture: Picture) -> str:
    forms = {"image/svg+xml": picture.path, "image/png": picture.path.with_suffix(".png")}
    kind, content = min(
        ((kind, path.read_bytes()) for kind, path in forms.items()), key=lambda each: len(each[1])
    )
    # Of Matplotlib's form: the first lines have the picture's size.
    size = re.search(r'<svg[^>]*? width="([0-9.]+)pt"', picture.path.read_text(encoding="utf-8")[:5000])
    width = f' width="{_PX_A_PT * float(size[1]):.0f}"' if size is not None else ""
    caption = html.escape(picture.caption)
    data = base64.b64encode(content).decode("ascii")
    return (
        f'<figure><img alt="{caption}"{width} src="data:{kind};base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
