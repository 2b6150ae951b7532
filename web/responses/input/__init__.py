"""What a request for a response says.

- `schemas`, `items`: the body, and the items of its input
- `turns`, `tools`: items and tools as parts of a `Conversation`
- `truncation`: what is dropped of a conversation that is too long
"""
