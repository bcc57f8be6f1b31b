"""Copies of the core, played forward from now: promises and what-if forecasts."""
