"""Statistics: pure functions."""
