"""Answers made from the scheduler's state and the store, as `service.views` models them."""
