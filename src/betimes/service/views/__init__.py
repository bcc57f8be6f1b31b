"""Models of the service's data as the API shows it."""
