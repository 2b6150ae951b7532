"""Unit tests of `bench.client.harness`, module by module.

- `open_servers`: ports that nobody listens on, unless a test has somebody do so.
"""
