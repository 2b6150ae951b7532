"""Completions: text that goes on where the prompt ends.

- `schema`: the body
- `prompts`: its prompts as token ids and as text
- `parse`: `parse_completion`, the body as a request
- `edits`: `parse_edit`, the body of `/v1/edits` as a request, which is answered as a completion
- `answers`: the response objects, and `TextFormatter`, which writes them
"""
