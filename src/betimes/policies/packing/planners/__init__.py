"""The packing planners: Eva and its parts, simpler ones, and the exact optimum."""
