"""The generated workloads of the papers; `betimes` finds them by entry points."""
