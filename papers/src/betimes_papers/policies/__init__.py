"""The policies that only the papers compare; `betimes` finds them by entry points."""
