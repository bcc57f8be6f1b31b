"""Verbs about jobs: submit them, look at them, wait for them, steer them."""
