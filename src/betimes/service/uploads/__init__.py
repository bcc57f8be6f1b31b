"""Directories uploaded with jobs: packing (`archive`), and the kept archives (`kept`)."""
