"""The second engine's state: jobs as tasks with demand vectors, placed on nodes."""
