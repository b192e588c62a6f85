"""From demonstrations to a policy: trainers, and evaluations of their checkpoints."""
