"""A trace as submissions to the real service on a virtual clock."""
