"""A process that computes one rank's share of a model, and does what rank 0's process tells it.

- `follower`: loads the share and follows
- `__main__`: the process
"""
