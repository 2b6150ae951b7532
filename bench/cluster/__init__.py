"""A cluster's front door, measured beside its workers' own addresses.

- `clusters`: a `cede cluster` for the time of a measurement
- `throughput`: `python -m bench.cluster.throughput`
"""
