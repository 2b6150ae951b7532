"""Unit tests of `web.openai.chat`, module by module.

- `scripts`: answers that a test dictates part by part.
"""
