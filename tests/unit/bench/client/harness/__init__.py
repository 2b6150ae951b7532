"""Unit tests of `bench.client.harness`, module by module.

- `open_servers`: targets that run in this process, and ports that nobody listens on.
"""
