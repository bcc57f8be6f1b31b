"""How well promises held, as a picture: coverage as stated and as observed, error over horizon, promised and actual."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from betimes.errors import InputError
from betimes.outcome.accuracy import HORIZONS_S, Promises, accuracy, horizon
from betimes.outcome.figure import COLOURS, DASHES, GREY, drawing

TENTHS = 10


def plot_accuracy(promises: Promises, path: str | Path) -> None:
    """Draw three pictures side by side.

    The share of promises kept in each tenth of them, in the order in which they were made, against the stated one; the
    absolute error by time to the promised end, with its median and 90th percentile in each class; and the promised
    against the actual time. Raises InputError where there is no promise, or for a suffix other than .svg or .png.
    """
    error = np.abs(promises.error_frac)
    shown = promises.take(np.isfinite(error) & (promises.finished_s > promises.made_s))
    if not len(shown):
        raise InputError("no promised job has finished in this time, so there is nothing to draw")
    order = np.argsort(shown.made_s, kind="stable")
    shown = shown.take(order)
    error = np.abs(shown.error_frac)
    promised_s, actual_s = shown.predicted_s - shown.made_s, shown.finished_s - shown.made_s
    with drawing(path, 13.0, 4.4) as figure:
        left, middle, right = figure.subplots(1, 3)
        tenths = [accuracy(shown.take(rows)) for rows in np.array_split(np.arange(len(shown)), TENTHS)]
        at = np.arange(1, TENTHS + 1)
        left.plot(at, [100 * one["cover_frac"] for one in tenths], "o-", color=COLOURS[0], label="observed")
        left.plot(
            at, [100 * one["level"] for one in tenths], color=COLOURS[1], linestyle=DASHES[1], label="stated"
        )
        left.set_ylim(0, 100)
        left.set_xlabel("Tenth of the promises, oldest first")
        left.set_ylabel("Done within their interval (%)")
        left.legend(loc="lower right")
        left.set_title(f"Coverage, {len(shown):,} promises")
        middle.loglog(promised_s, 100 * np.maximum(error, 1e-3), ".", color=GREY, markersize=3, alpha=0.5)
        classes = horizon(shown)
        for percent, colour in ((50, COLOURS[0]), (90, COLOURS[1])):
            points = [
                (np.median(promised_s[rows]), 100 * np.percentile(error[rows], percent))
                for name in HORIZONS_S
                if np.any(rows := classes == name)
            ]
            x, y = np.array(points).T
            name = "median" if percent == 50 else f"{percent} % are below"
            middle.plot(x, np.maximum(y, 0.1), "o-", color=colour, label=name)
        middle.set_xlabel("Time to the promised end (s)")
        middle.set_ylabel("Absolute error (% of that)")
        middle.legend(loc="upper right")
        middle.set_title("Error by horizon")
        right.loglog(promised_s, actual_s, ".", color=COLOURS[0], markersize=3, alpha=0.5)
        ends = min(promised_s.min(), actual_s.min()), max(promised_s.max(), actual_s.max())
        right.plot(ends, ends, color=GREY, linewidth=1)
        right.set_xlabel("Promised (s)")
        right.set_ylabel("Actual (s)")
        right.set_title("Time to the end")
