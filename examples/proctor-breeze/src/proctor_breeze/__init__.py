"""Breeze: an example of a benchmark for Proctor."""
