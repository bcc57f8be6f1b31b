"""The nodes engine: tasks with demands of GPUs, cores and memory, on nodes of several types."""
