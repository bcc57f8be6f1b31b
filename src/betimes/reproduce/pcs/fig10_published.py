"""What PCS published of figure 10: errors and JCTs when sizes are not known exactly, and when the load is another.

Source: `data/fig10` of the public release (abdullahfsm/PCS, MIT) and the text. The workload is not named; no prefix of
a released trace has these JCTs.
"""

from __future__ import annotations

SIZE_ERRORS = (0, 5, 10, 20, 30, 40)  # %

# Mean absolute prediction error, %, by policy and then by size error, %.
ERROR_MEAN: dict[str, dict[int, float]] = {
    "fifo": dict(zip(SIZE_ERRORS, (0.0, 1.37, 2.72, 5.48, 8.32, 11.32), strict=True)),
    "PCS": dict(zip(SIZE_ERRORS, (1.68, 3.53, 5.64, 9.52, 14.59, 19.64), strict=True)),
    "afs": dict(zip(SIZE_ERRORS, (3.38, 5.11, 7.01, 11.37, 17.56, 25.53), strict=True)),
}

# Mean JCT, s.
JCT_MEAN: dict[str, dict[int, float]] = {
    "afs": dict(zip(SIZE_ERRORS, (451424.0, 450566.0, 451047.0, 451482.0, 451399.0, 452471.0), strict=True)),
    "PCS": dict(zip(SIZE_ERRORS, (731920.0, 736234.0, 735727.0, 729120.0, 737060.0, 741587.0), strict=True)),
    "fifo": {0: 1920950.0},
}

NEAR_FRONT = 75.0  # % of the configurations found at 60 % load that are near the front at 80 %
