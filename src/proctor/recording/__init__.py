"""Rollouts as a dataset: what is recorded of an episode, and the LeRobotDataset that all of them make."""
