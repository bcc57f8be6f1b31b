"""Who reaches the service, and where it is found."""
