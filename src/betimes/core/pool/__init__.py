"""The first engine's state: elastic jobs that hold a number of identical units."""
