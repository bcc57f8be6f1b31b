"""Users' requests: job specifications, files of jobs, and their checks before the scheduler sees them."""
