"""What users may ask for: job specifications, files of jobs, and what is refused before the scheduler sees it."""
