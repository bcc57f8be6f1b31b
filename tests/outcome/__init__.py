"""Tests of betimes.outcome."""
