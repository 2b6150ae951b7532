"""Clients of a real server, and what they get and see: libraries, TLS, keys, numbers, the log, hostile bodies."""
