"""How episodes are run: plan, queue, coordinator, children, workers, host, transport."""
