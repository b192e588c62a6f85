"""Where the episodes of a run are run: in this process, in processes of this machine, on the nodes of a cluster.

Each drives the same `Dispatch`; the rest of a run is the same.
"""
