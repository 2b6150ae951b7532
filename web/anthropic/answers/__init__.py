"""Messages of Anthropic's API, streaming and whole.

- `message`: what the two have in common: the message object, its usage, its blocks, and why it stopped
- `stream`: the events of a message that is streamed
- `message_builder`: a message that is sent whole
- `objects`: all of these for the OpenAPI document
"""
