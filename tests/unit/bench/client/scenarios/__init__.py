"""Unit tests of `bench.client.scenarios`, module by module.

- `turns`: turns of a scenario on a server whose speed and manners are known, and what they say.
"""
