"""What is refused before a job or a node comes to the scheduler, as it asks the disk or the nodes."""
