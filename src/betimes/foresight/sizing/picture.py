"""Cost and wait over the number of owned machines, as a picture: fleet.svg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from betimes.foresight.sizing.fleet import Sizing
from betimes.outcome.figure import COLOURS, DASHES, drawing

FILE = "fleet.svg"


def draw(sizing: Sizing, path: str | Path) -> None:
    """Total, owned and rented cost above the mean wait. Raises InputError where it cannot be written."""
    machines = [fleet.machines for fleet in sizing.fleets]
    with drawing(path, 6.4, 6.0) as figure:
        above: Any = figure.add_subplot(2, 1, 1)  # matplotlib's types are too loose
        below: Any = figure.add_subplot(2, 1, 2, sharex=above)
        curves = (("in all", "cost_usd"), ("owned", "fixed_usd"), ("rented", "on_demand_usd"))
        for (name, field), colour, dashes in zip(curves, COLOURS, DASHES, strict=False):
            values = [getattr(fleet, field) for fleet in sizing.fleets]
            above.plot(machines, values, color=colour, linestyle=dashes, label=name)
        above.plot([sizing.best.machines], [sizing.best.cost_usd], "o", color=COLOURS[0])
        above.set_ylim(bottom=0.0)
        above.set_ylabel("cost (USD)")
        above.set_title(sizing.policy)
        above.legend()
        below.plot(machines, [fleet.wait_mean_h for fleet in sizing.fleets], color=COLOURS[0])
        below.set_ylim(bottom=0.0)
        below.set_ylabel("mean wait (h)")
        below.set_xlabel(f"owned machines ({sizing.instance_type})")
