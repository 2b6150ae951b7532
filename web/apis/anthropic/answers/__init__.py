"""Messages of Anthropic's API, streaming and whole.

- `message`: what the two have in common: the message object, its usage, its blocks, and why it stopped
- `formatter`: `MessageFormatter`, which shows both
- `objects`: all of these for the OpenAPI document
"""
