"""The experiments of FitGpp."""
