"""Unit tests of `web.generation.openai_format.answers`, module by module.

- `streams`: streams to be tested, and what was written to them.
- `whole_answers`: what answers that are sent whole are made of.
"""
