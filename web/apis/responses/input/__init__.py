"""Input of a request for a response.

- `schemas`, `items`: the body, and the items of its input, also as they are stored and listed
- `conversation_bodies`: the bodies of the routes of stored conversations
- `turns`, `tools`: items and tools as parts of a `Conversation`
- `truncation`: what is dropped of a conversation that is too long
"""
