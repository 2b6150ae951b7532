"""Unit tests of `web.openai`, module by module.

- `streams`: streams to be tested, and what was written to them.
- `whole_answers`: what answers that are sent whole are made of.
- `wrong_values`: wrong values of the parameters that both endpoints know.
"""
