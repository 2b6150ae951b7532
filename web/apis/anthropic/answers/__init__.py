"""Messages of Anthropic's API, streaming and whole.

- `objects`: the message and all other objects, how they are made, and why a message stopped
- `formatter`: `MessageFormatter`, which shows both
"""
