"""Whether one policy is better than another: stored runs, read and never written, paired and judged."""
