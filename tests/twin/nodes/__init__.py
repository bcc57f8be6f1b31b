"""The nodes engine."""
