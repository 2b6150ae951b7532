"""Input of a request for a response.

- `schemas`, `items`: the body, and the items of its input, also as they are stored and listed
- `turns`, `tools`: items and tools as parts of a `Conversation`
"""
