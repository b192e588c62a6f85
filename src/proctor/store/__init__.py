"""What is kept of a run: directory, episode table, identity, eval_info.json."""
