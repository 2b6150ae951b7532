"""State that outlives a request for a response.

- `archive`: responses as stored objects, and how one becomes that at its end
- `conversations`: items that responses begin from and add to
- `making`: responses that run without a client, and may be followed by several
- `state`: all of them, open beside the engine
"""
