"""Rows of an experiment as a picture: a panel a metric, a bar a case, and the published value where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.outcome.figure import drawing
from betimes.reproduce.experiment import Row

_BAR = 0.25  # inches a case


def draw(rows: list[Row], path: Path) -> None:
    """Write the picture; raises InputError where the file cannot be written."""
    metrics = list(dict.fromkeys(row.metric for row in rows))
    cases = len({row.case for row in rows})
    with drawing(path, 9.0, 0.8 + len(metrics) * (0.8 + _BAR * cases)) as figure:
        panels: Any = figure.subplots(len(metrics), 1, squeeze=False)
        for metric, axes in zip(metrics, panels[:, 0], strict=True):
            shown = [row for row in rows if row.metric == metric]
            places = range(len(shown))
            axes.barh(places, [row.ours for row in shown], height=0.7, label="Betimes")
            known = [(at, row.published) for at, row in enumerate(shown) if row.published is not None]
            if known:
                axes.plot(
                    [value for _, value in known], [at for at, _ in known], "k|", ms=12, label="published"
                )
                axes.legend()
            axes.set_yticks(places, [row.case for row in shown])
            axes.invert_yaxis()
            axes.set_xlabel(f"{metric}, {shown[0].unit}")
