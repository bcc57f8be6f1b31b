"""Any of the experiments as a picture: a panel for each log and metric, a bar for each case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from betimes.outcome.figure import COLOURS, drawing
from betimes.reproduce.experiment import Row


def draw(title: str, rows: Sequence[Row], path: Path) -> None:
    """Draw the rows, whose cases are LOG/CASE; raises InputError where the file cannot be written."""
    logs = list(dict.fromkeys(row.case.partition("/")[0] for row in rows))
    metrics = list(dict.fromkeys(row.metric for row in rows))
    most = max(
        sum(row.metric == metric and row.case.startswith(f"{log}/") for row in rows)
        for log in logs
        for metric in metrics
    )
    with drawing(path, 5.2 * len(metrics), (1.0 + 0.3 * most) * len(logs)) as figure:
        figure.suptitle(title)
        panels = figure.subplots(len(logs), len(metrics), squeeze=False)
        for log, of_log in zip(logs, panels, strict=True):
            for metric, axes in zip(metrics, of_log, strict=True):
                of_panel = [row for row in rows if row.metric == metric and row.case.startswith(f"{log}/")]
                cases = [row.case.partition("/")[2] for row in of_panel]
                axes.barh(cases, [row.ours for row in of_panel], color=COLOURS[0], label="ours")
                marked = [(row.published, case) for row, case in zip(of_panel, cases, strict=True)]
                for published, case in marked:
                    if published is not None:
                        axes.plot([published], [case], "D", color=COLOURS[1], label="published")
                axes.invert_yaxis()
                unit = f", {of_panel[0].unit}" if of_panel and of_panel[0].unit else ""
                axes.set_title(f"{log}: {metric}{unit}")
