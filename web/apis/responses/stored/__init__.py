"""State that outlives a request for a response.

- `archive`: responses as stored objects
- `conversations`: items that responses begin from and add to
- `ending`: what is done when a response has ended
- `background`, `making`: responses that run without a client, and may be followed by several
- `state`: all of them, open beside the engine
"""
