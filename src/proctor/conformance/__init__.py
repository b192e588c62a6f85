"""Whether a benchmark keeps its contract: real processes play it, and what they saw is compared."""
