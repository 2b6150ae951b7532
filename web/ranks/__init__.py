"""The processes of the ranks that compute a model together with this one (`runtime.parallel`).

- `processes`: `open_ranks`
"""
