"""Machines that are really rented, and the agents of those that are on the service's own machine."""
