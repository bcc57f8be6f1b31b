"""What PCS published of Workload-3: figure 8, and the configurations released for it.

Source: `data/fig8` and `data/PCS_configs` of the public release (abdullahfsm/PCS, MIT). The bars of figure 8a are
stored with 5 percentage points added to each, as the 99th percentiles of 8b show; they are taken off here. JCTs are
stored over those of a policy that is not in the file; here they are over Tiresias's, the smallest that is.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """Mean JCT over that of Tiresias (SRSF); mean and 99th percentile of absolute prediction errors, %."""

    jct_over_srsf: float | None
    error_mean: float | None
    error_p99: float | None


class Configuration(NamedTuple):
    """One of the points that the study names, with weights to three digits."""

    name: str
    policy: str


_SRSF = 1.050
_ADDED = 5.0

FIGURE_8 = {
    "afs": Published(1.058 / _SRSF, 17.24 - _ADDED, 328.81),
    "srsf": Published(1.0, 15.92 - _ADDED, 343.19),
    "themis": Published(1.395 / _SRSF, 20.90 - _ADDED, 103.73),
    "fifo": Published(3.170 / _SRSF, 0.0, 0.0),
    "max-min": Published(3.027 / _SRSF, None, 296.97),
    "PCS-JCT": Published(1.130 / _SRSF, 11.29 - _ADDED, 111.27),
    "PCS-bal": Published(2.233 / _SRSF, None, 28.72),
    "PCS-pred": Published(2.668 / _SRSF, None, 10.64),
}

CONFIGURATIONS = (
    Configuration("PCS-JCT", "wfq:thresholds=3234,weights=0.941+0.059,zeta_min=0.01,delta=0.01"),
    Configuration("PCS-bal", "wfq:thresholds=607,weights=0.593+0.407,zeta_min=0.01,delta=0.01"),
    Configuration("PCS-pred", "wfq:thresholds=344,weights=0.909+0.091,zeta_min=0.01,delta=0.01"),
)
