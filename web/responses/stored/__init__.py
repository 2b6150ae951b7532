"""What outlives a request for a response.

- `archive`: responses as stored objects
- `event_log`, `background`, `making`: responses that run without a client, and may be followed by several
- `state`: both, open beside the engine
"""
