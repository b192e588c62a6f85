"""What a machine does with a policy and a benchmark: measured in a minute, predicted, and turned into settings."""
