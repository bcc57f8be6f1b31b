"""A front as a page: front.html, which needs no network. Hover shows a configuration; a click copies its command."""

from __future__ import annotations

import html
import json
import math
import shlex
from collections.abc import Sequence
from importlib import import_module
from itertools import cycle
from pathlib import Path
from textwrap import wrap
from typing import Any

from betimes.errors import InputError
from betimes.foresight.tuning.front import BALANCED, FASTEST, PREDICTABLE, Front, Point
from betimes.foresight.tuning.shown import (
    Axis,
    Label,
    Mark,
    Shown,
    axes_of,
    beaten,
    cells,
    in_words,
    shown_by_part,
)
from betimes.outcome.figure import COLOURS
from betimes.outcome.tables import short_names
from betimes.policies import parse_policy

FILE = "front.html"

_STANDS_FOR = {FASTEST: "the fastest", BALANCED: "in between", PREDICTABLE: "the most predictable"}
_WORDS = (
    "Job completion time: from a job's submission to its end. Prediction error: how far the end that was promised at "
    "submission was off, as a share of the promised job completion time."
)
_SIGNS = ("square", "triangle-up", "cross", "triangle-down", "x", "pentagon", "hexagram", "bowtie")
_PANEL_PX = (380.0, 430.0)  # the room within the axes of a part in a narrow window

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
// On a phone the parts stand below each other.
const narrow = window.matchMedia('(max-width: 700px)');
const wide = {places};
const put = () => {
  const parts = wide.length;
  const changes = narrow.matches
    ? {'height': 460 * parts, 'legend.y': -0.12 / parts}
    : {'height': 620, 'legend.y': -0.16};
  wide.forEach(([left, right], at) => {
    const number = at ? at + 1 : '';
    const [low, high] = narrow.matches ? [1 - (at + 0.82) / parts, 1 - (at + 0.06) / parts] : [0, 1];
    changes[`xaxis${number}.domain`] = narrow.matches ? [0, 1] : [left, right];
    changes[`yaxis${number}.domain`] = [low, high];
    const title = plot.layout.annotations.findIndex(each => each.name === `part ${at}`);
    changes[`annotations[${title}].x`] = narrow.matches ? 0 : left;
    changes[`annotations[${title}].y`] = high + 0.02 / parts;
  });
  plot.parentElement.style.height = `${changes.height}px`;
  Plotly.relayout(plot, changes);
};
narrow.addEventListener('change', put);
put();
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font-family:system-ui,sans-serif;margin:1.5rem;color:#222;background:#fff}}h1{{overflow-wrap:anywhere}}
#command{{background:#f3f3f3;padding:.6rem;white-space:pre-wrap;word-break:break-all;min-height:1.2em}}
.wide{{overflow-x:auto}}#front{{min-width:{width}px}}table{{border-collapse:collapse}}
th,td{{padding:.3rem 1rem .3rem 0;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}}
.number{{text-align:right;font-variant-numeric:tabular-nums}}
@media(max-width:700px){{body{{margin:.8rem}}#front{{min-width:0}}table,tbody,tr,th,td{{display:block}}tr:first-child{{display:none}}
th,td,.number{{border:0;padding:.1rem 0;text-align:left}}tr{{border-bottom:1px solid #ddd;padding:.6rem 0}}
td[data-head]::before{{content:attr(data-head) ": ";color:#555}}}}</style></head>
<body><h1>{title}</h1><p>{about}</p>{beaten}
<div class="wide">{plot}</div>
<p id="told">Click a point to copy the command that puts it in force:</p><pre id="command"></pre>
<h2>Points</h2><p>{words}</p><p>{brackets}</p><div class="wide"><table>{table}</table></div>
</body></html>
"""


def write(front: Front, path: str | Path) -> None:
    """Write the page; raises InputError where it cannot be written."""
    found = shown_by_part(front)
    io: Any = import_module("plotly.io")
    plot: str = io.to_html(
        _figure(found, front),
        include_plotlyjs=True,
        full_html=False,
        div_id="front",
        post_script=_COPY.replace(
            "{places}", json.dumps([_domain(at, len(found)) for at in range(len(found))])
        ),
        config={"displaylogo": False, "responsive": True},
    )
    parts = [
        f"{front.jobs:,} jobs on {front.pool_units} units",
        f"{front.evaluations:,} evaluations with {front.solver}, seed {front.seed}",
        f"found on {front.train.jobs:,} jobs"
        + (f", reported on the {front.test.jobs:,} after them" if front.test is not None else ""),
    ]
    page = _PAGE.format(
        title=html.escape(f"Pareto front of {front.workload}"),
        about=html.escape("; ".join(parts) + "."),
        beaten="".join(f"<p>{html.escape(sentence)}</p>" for sentence in beaten(front)),
        plot=plot,
        width=500 * len(found),
        words=html.escape(_WORDS),
        brackets=""
        if front.test is None
        else "Values on the part that is reported; in brackets on the part that was searched on.",
        table=_table(front),
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


def _figure(parts: dict[str, Shown], front: Front) -> dict[str, Any]:
    """Plotly's own form of a figure: plain dictionaries. A panel a part, the reported one first, filled."""
    colour = (*axes_of(front), None, None)[2]
    jobs = {"training part": front.train.jobs, "testing part": front.test.jobs if front.test else 0}
    used = {"training part": "searched on", "testing part": "reported"}
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "template": None,
        "height": 620,
        "hovermode": "closest",
        "plot_bgcolor": "#fff",
        "legend": {"orientation": "h", "y": -0.16},
        "annotations": [],
    }
    for at, (part, found) in enumerate(reversed(parts.items())):
        number, left, is_main = str(at + 1) if at else "", _domain(at, len(parts))[0], at == 0
        layout["annotations"].append(
            {
                "name": f"part {at}",
                "text": f"<b>{part.capitalize()}, {used[part]}</b> ({jobs[part]:,} jobs)",
                "x": left,
                "xref": "paper",
                "xanchor": "left",
                "y": 1.02,
                "yref": "paper",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
        groups: list[tuple[str, Sequence[Mark], str, str, int]] = [
            (mark.names[0], [mark], COLOURS[1], sign, 12)
            for mark, sign in zip(found.of("baseline"), cycle(_SIGNS), strict=False)
        ]
        groups.append(("wfq", found.of("front", "named"), COLOURS[0], "circle", 8))
        for name, marks, own, sign, size in groups:
            look: dict[str, Any] = {"color": own, "size": size, "symbol": sign if is_main else f"{sign}-open"}
            if colour is not None:
                shades = [colour.shown(mark.values[2]) for mark in marks]
                look |= {"color": shades, "coloraxis": "coloraxis"}
            places = [found.place(mark) for mark in marks]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "showlegend": is_main,
                    "legendgroup": name,
                    "xaxis": f"x{number}",
                    "yaxis": f"y{number}",
                    "x": [x for x, _ in places],
                    "y": [y for _, y in places],
                    "customdata": [command_for(mark.policy) for mark in marks],
                    "hovertext": [_hover(mark, found.axes, part) for mark in marks],
                    "hoverinfo": "text",
                    "marker": look,
                }
            )
        layout[f"xaxis{number}"] = _axis(found.axes[0], found.values(0)) | {
            "anchor": f"y{number}",
            "domain": _domain(at, len(parts)),
        }
        up = {"visible": False} if len(found.axes) < 2 else _axis(found.axes[1], found.values(1))
        layout[f"yaxis{number}"] = up | {"anchor": f"x{number}"}
        layout["annotations"] += [
            _annotation(label, found.axes, number)
            for label in found.labels(*_PANEL_PX, letter=7.0, line=15.0)
        ]
    if colour is not None:
        layout["coloraxis"] = {"colorbar": {"title": {"text": colour.title}}, "colorscale": "Viridis"}
    return {"data": traces, "layout": layout}


def _domain(at: int, parts: int) -> list[float]:
    """The place of a part across the picture, where parts stand beside each other."""
    return [0.55 * at, 0.55 * at + (1.0 if parts == 1 else 0.45)]


def _named(name: str) -> str:
    """A point's name with what it stands for."""
    return f"{name} ({_STANDS_FOR[name]})" if name in _STANDS_FOR else name


def _spelled(title: str) -> str:
    """The title of an axis without abbreviations."""
    return title.replace("JCT", "Job completion time,")


def _annotation(label: Label, axes: Sequence[Axis], number: str) -> dict[str, Any]:
    """Plotly wants logarithms of positions where an axis is logarithmic."""
    logs = [axis.floor is not None for axis in axes[:2]] + [False]
    return {
        "text": "<br>".join(html.escape(line) for line in label.lines),
        "xref": f"x{number}",
        "x": math.log10(label.x) if logs[0] else label.x,
        "yref": f"y{number}",
        "y": math.log10(label.y) if logs[1] else label.y,
        "xanchor": "right" if label.is_left else "left",
        "xshift": -9 if label.is_left else 9,
        "align": "right" if label.is_left else "left",
        "yanchor": "middle",
        "showarrow": False,
        "font": {"size": 12},
    }


def _hover(mark: Mark, axes: Sequence[Axis], part: str) -> str:
    point = "" if mark.number is None else f"{mark.number} "
    lines = [f"<b>{html.escape(point + ', '.join(mark.names))}</b> ({part})"]
    lines += [
        f"{_spelled(axis.title)}: {axis.text(value)}" for axis, value in zip(axes, mark.values, strict=True)
    ]
    policy = mark.policy if mark.number is None else in_words(mark.policy)
    return "<br>".join([lines[0], *map(html.escape, [*lines[1:], *wrap(policy, 70)])])


def _table(front: Front) -> str:
    """A row a point or another policy: its values, and what it does."""
    axes = axes_of(front)
    heads = "".join(
        f'<th scope="col" class="number">{html.escape(_spelled(axis.title))}</th>' for axis in axes
    )
    rows = [f'<tr><th scope="col">Point</th>{heads}<th scope="col">What it does</th></tr>']
    named = short_names([each.policy for each in front.baselines])
    for name, each in [
        *((f"{point.number} {', '.join(map(_named, point.names))}", point) for point in front.points),
        *zip(named, front.baselines, strict=True),
    ]:
        what_it_does = (
            in_words(each.policy) if isinstance(each, Point) else parse_policy(each.policy).policy.summary
        )
        values = "".join(
            f'<td class="number" data-head="{html.escape(_spelled(axis.title))}">{cell}</td>'
            for axis, cell in zip(axes, cells(front, axes, each), strict=True)
        )
        rows.append(
            f'<tr><th scope="row">{html.escape(name)}</th>{values}<td>{html.escape(what_it_does)}</td></tr>'
        )
    return "\n".join(rows)


def _axis(axis: Axis, values: Sequence[float]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "title": {"text": _spelled(axis.heading)},
        "gridcolor": "#DDDDDD",
        "zeroline": False,
        "type": "linear" if axis.floor is None else "log",
        "range": axis.limits(values),
    }
    ticks = axis.ticks(values)
    return found if ticks is None else found | {"tickvals": list(ticks), "ticktext": list(ticks.values())}
