"""Unit tests of `web.openai`, module by module.

- `wrong_values`: wrong values of the parameters that both endpoints know.
"""
