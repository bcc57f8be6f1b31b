"""What every test shares: how hypothesis searches, and which tests need the whole machine's patience."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline: the first call of a kernel compiles it, and machines differ.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("dev", _COMMON, max_examples=50)
settings.register_profile("ci", _COMMON, max_examples=100, derandomize=True, database=None)
settings.register_profile("thorough", _COMMON, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
