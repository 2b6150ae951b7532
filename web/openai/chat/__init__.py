"""Chat completions.

- `schema`: the body
- `messages`: the conversation that it holds
- `parse`: `parse_chat`, the body as a request
- `format`: the response objects
"""
