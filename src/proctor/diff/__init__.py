"""`proctor diff`: a run beside what another harness made of the same episodes."""
