"""Unit tests of `web.generation.openai_format`, module by module.

- `wrong_values`: wrong values of the parameters that both endpoints know.
"""
