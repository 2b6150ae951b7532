"""Bad edits of a cluster.

control    what unit tests notice: what is said across workers
requests   what the simulated clusters notice: a worker's requests, and their ends
knowledge  the same, of discovery and of KV: what front doors know of a worker
"""
