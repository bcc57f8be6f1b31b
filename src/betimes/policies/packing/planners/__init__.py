"""The packing planners: Eva and its parts, its baselines, and the exact optimum."""
