"""The live system: the pure core driven by real time, its store, its executors and its API."""
