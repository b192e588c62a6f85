"""One plan on the nodes of a Ray cluster. Nothing here is imported unless `--cluster.address` is given."""
