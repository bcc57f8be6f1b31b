"""Machines that come and go: rented for all, rented for one job, owned, or as a cloud reports them."""
