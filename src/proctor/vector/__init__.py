"""Gymnasium vector environments of a benchmark's tasks, for code that wants to step simulators itself."""
