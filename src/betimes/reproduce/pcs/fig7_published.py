"""What PCS published of its figure 7: the values behind the bars, and the configurations that were released.

Source: the data files of the public release (abdullahfsm/PCS, `data/fig7` and `data/PCS_configs`, MIT). The row
of trace 2869ce is in those files and not in the paper.
"""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """Mean JCT over the smallest of the trace; mean and 99th percentile of absolute prediction errors, %."""

    jct_over_best: float
    error_mean: float
    error_p99: float


class Configuration(NamedTuple):
    """One of the points that the study names, with weights to three digits; the files have fractions."""

    name: str
    policy: str


# By trace, then by our name of the policy; SRSF is called Tiresias there.
FIGURE_7: dict[str, dict[str, Published]] = {
    "2869ce": {
        "afs": Published(1.0, 9.027, 113.631),
        "srsf": Published(1.428, 11.166, 241.127),
        "themis": Published(1.652, 33.82, 122.788),
        "fifo": Published(4.857, 0.0, 0.0),
        "PCS-JCT": Published(1.145, 4.045, 48.08),
        "PCS-bal": Published(1.459, 1.407, 22.211),
        "PCS-pred": Published(2.562, 0.4, 4.709),
    },
    "0e4a51": {
        "afs": Published(1.0, 25.632, 239.758),
        "srsf": Published(1.064, 26.619, 313.503),
        "themis": Published(1.324, 47.967, 212.425),
        "fifo": Published(9.301, 0.0, 0.0),
        "PCS-JCT": Published(1.568, 5.568, 115.522),
        "PCS-bal": Published(2.372, 1.371, 14.914),
        "PCS-pred": Published(2.614, 0.8, 7.219),
    },
    "b436b2": {
        "afs": Published(1.0, 83.816, 770.714),
        "srsf": Published(1.316, 86.569, 791.598),
        "themis": Published(1.552, 43.32, 258.832),
        "fifo": Published(59.979, 0.0, 0.0),
        "PCS-JCT": Published(2.246, 1.272, 26.042),
        "PCS-bal": Published(3.33, 0.375, 9.634),
        "PCS-pred": Published(5.362, 0.172, 5.601),
    },
    "6c71a0": {
        "afs": Published(1.0, 16.963, 194.101),
        "srsf": Published(1.073, 18.358, 216.328),
        "themis": Published(1.498, 40.007, 126.188),
        "fifo": Published(31.521, 0.0, 0.0),
        "PCS-JCT": Published(1.467, 4.935, 92.058),
        "PCS-bal": Published(2.021, 2.006, 69.316),
        "PCS-pred": Published(4.846, 1.446, 49.363),
    },
}

# None was released for 2869ce.
CONFIGURATIONS: dict[str, tuple[Configuration, ...]] = {
    "2869ce": (),
    "0e4a51": (
        Configuration(
            "PCS-JCT", "wfq:thresholds=1627+969473,weights=0.95+0.048+0.002,zeta_min=0.598,delta=0.235"
        ),
        Configuration(
            "PCS-bal", "wfq:thresholds=2139+1533489,weights=0.94+0.057+0.003,zeta_min=0.633,delta=0.502"
        ),
        Configuration(
            "PCS-pred", "wfq:thresholds=5758+4600151,weights=0.95+0.048+0.002,zeta_min=0.319,delta=0.168"
        ),
    ),
    "b436b2": (
        Configuration("PCS-JCT", "wfq:thresholds=16000,weights=0.953+0.047,zeta_min=0.664,delta=0.53"),
        Configuration("PCS-bal", "wfq:thresholds=102661,weights=0.941+0.059,zeta_min=0.764,delta=0.112"),
        Configuration("PCS-pred", "wfq:thresholds=102661,weights=0.912+0.088,zeta_min=0.765,delta=0.091"),
    ),
    "6c71a0": (
        Configuration(
            "PCS-JCT", "wfq:thresholds=9598+177675,weights=0.942+0.055+0.003,zeta_min=0.23,delta=0.519"
        ),
        Configuration("PCS-bal", "wfq:thresholds=330591,weights=0.93+0.07,zeta_min=0.105,delta=0.448"),
        Configuration("PCS-pred", "wfq:thresholds=104253,weights=0.945+0.055,zeta_min=0.353,delta=0.093"),
    ),
}
