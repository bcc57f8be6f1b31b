"""What PCS released of its searches on Philly traces: the ends of every front, and two points of one.

Source: `simulation/wfq_configurations` of the public release (abdullahfsm/PCS, MIT).
"""

from __future__ import annotations

from typing import NamedTuple

JOBS = 2001  # the first of the trace
EVALUATIONS = 370


class Front(NamedTuple):
    """A released front: mean JCT in s and mean error in % at its ends, its points, and the search's seconds."""

    least_jct_s: float
    most_error: float
    most_jct_s: float
    least_error: float
    points: int
    seconds: float


class Stored(NamedTuple):
    """A released point: (T, W, zeta_min, delta), mean JCT in s and mean error in %."""

    variables: tuple[float, float, float, float]
    jct_s: float
    error: float


FRONTS = {
    "2869ce": Front(67134.0, 7.59, 296146.0, 0.0, 34, 48.0),
    "e13805": Front(83271.0, 5.44, 328306.0, 0.0, 30, 61.0),
    "0e4a51": Front(407797.0, 7.80, 2262174.0, 0.0, 58, 2227.0),
    "6c71a0": Front(239081.0, 5.75, 1645093.0, 0.0, 32, 7861.0),
    "b436b2": Front(516446.0, 5.72, 10463547.0, 0.0004, 64, 8849.0),
    "7f04ca": Front(1082674.0, 11.4, 9373342.0, 0.0, 41, 6861.0),
}

STORED = {
    "2869ce": (
        Stored(
            (2.4564053788354894, 2.2547490957674077, 0.8451585702251541, 0.03856238126746582),
            67133.79324858576,
            7.590350638786166,
        ),
        Stored(
            (5.353709990914058, 1.452694127025606, 0.24740147668626183, 0.061556538792883406),
            270802.05263170286,
            0.023230884578907988,
        ),
    ),
}
