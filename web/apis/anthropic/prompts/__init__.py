"""Prompts of Anthropic's API: what a body asks of the model.

- `schemas`, `blocks`: the bodies, and the content blocks in them
- `conversation`: a body as plain data; `tools`: the part of it about tools
"""
