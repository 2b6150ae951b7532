"""Unit tests of `web.generation.openai_format.chat`, module by module.

- `scripts`: answers that a test dictates part by part.
"""
