"""Unit tests of `web.ollama.answers`, module by module.

- `parsers`: what turns a text into any parts
"""
