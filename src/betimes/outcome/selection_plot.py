"""The history of a portfolio as a picture: the chosen members and their scores over time."""

from __future__ import annotations

import numpy as np

from betimes.errors import InputError
from betimes.outcome.figure import COLOURS, GREY, Paths, drawing, scaled_ticks
from betimes.outcome.result import Result
from betimes.outcome.tables import short_names
from betimes.units import TIME_UNITS, time_unit

MOST_MEMBERS = 12
OTHERS = "others"


def plot_selections(result: Result, path: Paths) -> None:
    """Draw the members chosen over time, the often chosen ones by name, and the scores: of the chosen, and all others.

    A choice lasts until the next selection. Raises InputError where nothing was selected, or for a suffix other than
    .svg or .png.
    """
    found = result.selections
    if found is None or not found.chosen.any():
        raise InputError(
            f"policy {result.policy}: nothing was selected; only a portfolio has a history to draw"
        )
    first_s = float(np.min(result.jobs.submit_s))
    at_s, member = found.at_s[found.chosen] - first_s, found.member[found.chosen]
    end_s = max(float(np.nanmax(np.append(result.jobs.finish_s, np.nan))) - first_s, float(at_s[-1]))
    lasts_s = np.diff(np.append(at_s, end_s))
    names, of_row = np.unique(member, return_inverse=True)
    times = np.bincount(of_row)
    order = np.argsort(-times, kind="stable")
    kept = order if len(names) <= MOST_MEMBERS else order[: MOST_MEMBERS - 1]
    line = np.full(len(names), len(kept))
    line[kept] = np.arange(len(kept))
    labels = [f"{names[at]} ({100 * times[at] / len(member):.0f}%)" for at in kept.tolist()]
    if len(kept) < len(names):
        labels.append(
            f"{len(names) - len(kept)} {OTHERS} ({100 * (1 - times[kept].sum() / len(member)):.0f}%)"
        )
    with drawing(path, 8.4, 3.2 + 0.28 * len(labels)) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(max(3, len(labels)), 4))
        rows = line[of_row]
        upper.barh(rows, lasts_s, 0.8, at_s, color=[COLOURS[row % len(COLOURS)] for row in rows.tolist()])
        upper.set_yticks(range(len(labels)), labels)
        upper.set_ylim(len(labels) - 0.4, -0.6)
        upper.set_title(
            f"{short_names([result.policy])[0]}: the choice at each of {len(at_s):,} selections, "
            f"{len(found):,} simulations"
        )
        lower.plot(found.at_s - first_s, found.score, ".", color=GREY, markersize=1.5, label="simulated")
        lower.plot(at_s, found.score[found.chosen], ".", color=COLOURS[0], markersize=3, label="chosen")
        lower.set_ylabel("Score foreseen")
        lower.legend(loc="upper right", markerscale=3)
        lower.set_xlim(0, end_s)
        unit = time_unit([end_s])
        scaled_ticks(lower, TIME_UNITS[unit])
        lower.set_xlabel(f"Time since the first submission ({unit})")
