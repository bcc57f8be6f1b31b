"""A front as a page: front.html, which needs no network. Hover shows a configuration; a click copies its command."""

from __future__ import annotations

import html
import shlex
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from betimes.errors import InputError
from betimes.foresight.tuning.front import Front
from betimes.foresight.tuning.shown import Axis, Group, Mark, Shown, beaten, shown
from betimes.outcome.figure import COLOURS

FILE = "front.html"

_LOOKS: dict[Group, tuple[str, dict[str, Any]]] = {
    "train": ("the same, training part", {"color": "#BBBBBB", "size": 6}),
    "front": ("wfq", {"color": COLOURS[0], "size": 9}),
    "named": ("named points", {"color": COLOURS[0], "size": 13, "symbol": "diamond"}),
    "baseline": ("other policies", {"color": COLOURS[1], "size": 10, "symbol": "square"}),
}

_COPY = """
const plot = document.getElementById('{plot_id}');
const line = document.getElementById('command');
plot.on('plotly_click', event => {
  const command = event.points[0].customdata;
  line.textContent = command;
  const told = text => document.getElementById('told').textContent = text;
  const byHand = () => {
    const area = document.createElement('textarea');
    area.value = command;
    document.body.appendChild(area);
    area.select();
    told(document.execCommand('copy') ? 'Copied:' : 'Copy this:');
    area.remove();
  };
  if (navigator.clipboard && window.isSecureContext) {
    navigator.clipboard.writeText(command).then(() => told('Copied:'), byHand);
  } else {
    byHand();
  }
});
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font-family:system-ui,sans-serif;margin:1.5rem;color:#222}}
#command{{background:#f3f3f3;padding:.6rem;white-space:pre-wrap;word-break:break-all;min-height:1.2em}}</style></head>
<body><h1>{title}</h1><p>{about}</p>{beaten}
{plot}
<p id="told">Click a point to copy the command that puts it in force:</p><pre id="command"></pre>
</body></html>
"""


def write(front: Front, path: str | Path) -> None:
    """Write the page; raises InputError where it cannot be written."""
    found = shown(front)
    io: Any = import_module("plotly.io")
    plot: str = io.to_html(
        _figure(found, front),
        include_plotlyjs=True,
        full_html=False,
        div_id="front",
        post_script=_COPY,
        config={"displaylogo": False, "responsive": True},
    )
    parts = [
        f"{front.jobs:,} jobs on {front.pool_units} units",
        f"{front.evaluations:,} evaluations with {front.solver}, seed {front.seed}",
        f"found on {front.train.jobs:,} jobs"
        + (f", shown on the {front.test.jobs:,} after them" if front.test is not None else ""),
    ]
    page = _PAGE.format(
        title=html.escape(f"Pareto front of {front.workload}"),
        about=html.escape("; ".join(parts) + "."),
        beaten="".join(f"<p>{html.escape(sentence)}</p>" for sentence in beaten(front)),
        plot=plot,
    )
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); choose another place"
        ) from error


def command_for(policy: str) -> str:
    """The command that puts a policy in force on the live service."""
    return f"betimes policy set {shlex.quote(policy)}"


def _figure(found: Shown, front: Front) -> dict[str, Any]:
    """Plotly's own form of a figure: plain dictionaries."""
    across, colour = list(found.axes[:2]), found.axes[2] if len(found.axes) > 2 else None
    traces: list[dict[str, Any]] = []
    for group, (name, marker) in _LOOKS.items():
        marks = found.of(group)
        if not marks:
            continue
        look = dict(marker)
        if colour is not None and group != "train":
            look |= {
                "color": [colour.shown(mark.values[2]) for mark in marks],
                "coloraxis": "coloraxis",
                "line": {"color": marker["color"], "width": 1},
            }
        is_named = group in ("named", "baseline")
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text" if is_named else "markers",
                "name": name,
                "x": [across[0].placed(mark.values[0]) for mark in marks],
                "y": [across[1].placed(mark.values[1]) if len(across) > 1 else 0.0 for mark in marks],
                "text": [mark.label.rpartition(", ")[2] for mark in marks] if is_named else None,
                "textposition": "top right",
                "customdata": [command_for(mark.policy) for mark in marks],
                "hovertext": [_hover(mark, found.axes, front) for mark in marks],
                "hoverinfo": "text",
                "marker": look,
            }
        )
    layout: dict[str, Any] = {
        "template": None,
        "height": 620,
        "hovermode": "closest",
        "xaxis": _axis(across[0], found.values(0)),
        "yaxis": _axis(across[1], found.values(1)) if len(across) > 1 else {"visible": False},
        "legend": {"orientation": "h", "y": 1.08},
    }
    if colour is not None:
        layout["coloraxis"] = {"colorbar": {"title": {"text": colour.title}}, "colorscale": "Viridis"}
    return {"data": traces, "layout": layout}


def _hover(mark: Mark, axes: Sequence[Axis], front: Front) -> str:
    lines = [f"<b>{html.escape(mark.label)}</b> ({mark.where})"]
    lines += [f"{axis.title}: {axis.text(value)}" for axis, value in zip(axes, mark.values, strict=True)]
    number = mark.label.partition(",")[0]
    if mark.group != "baseline" and number.isdigit():
        variables = front.points[int(number)].variables
        lines.append(", ".join(f"{name} {value:.4g}" for name, value in variables.items()))
    policy = mark.policy
    lines += [html.escape(policy[at : at + 90]) for at in range(0, len(policy), 90)]
    return "<br>".join(lines)


def _axis(axis: Axis, values: Sequence[float]) -> dict[str, Any]:
    plain: dict[str, Any] = {"title": {"text": axis.title}, "gridcolor": "#DDDDDD", "zeroline": False}
    if axis.floor is None:
        return plain
    ticks = axis.ticks(values)
    return plain | {"type": "log", "tickvals": list(ticks), "ticktext": list(ticks.values())}
