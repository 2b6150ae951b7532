"""Requests that end early, on real servers: hang-ups, deadlines, stalls, lost devices, shutdown.

`victims` are requests to be hung up on, `connections` ways in which a connection ends.
"""
