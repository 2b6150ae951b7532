"""Floods beside a stream, `python -m bench.floods`: frames and requests that cost a client nothing, without an end.

`kinds` has their bytes, `client` sends them, in a process of its own, and `beside` measures a neighbour meanwhile.
"""
