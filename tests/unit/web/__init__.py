"""Unit tests of `web`, module by module.

- `apps`: the application with scripted requests, for Quart's test client.
"""
