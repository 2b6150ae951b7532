"""Completions: text that goes on where the prompt ends.

- `schema`: the body
- `prompts`: its prompts as token ids and as text
- `parse`: `parse_completion`, the body as a request
- `answers`: the response objects, and `TextFormatter`, which writes them
"""
