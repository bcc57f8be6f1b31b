"""The experiments of PCS."""
