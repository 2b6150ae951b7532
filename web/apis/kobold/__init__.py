"""KoboldAI's API, as KoboldCpp serves it: a text goes on where the prompt ends.

- `parse`: `parse_generate`, the body as a request
- `answers`: the answers and the errors, and what writes them
- `routes`: `add_routes`
"""
