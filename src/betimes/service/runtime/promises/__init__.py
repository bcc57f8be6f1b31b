"""Promises: play-outs in a thread, quotes of them, and what they leave to be said."""
