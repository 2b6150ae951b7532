"""Unit tests of `web.apis.ollama.answers`, module by module.

- `parsers`: what turns a text into any parts
"""
