"""Output of a response, from the engine's events to its own.  Pure.

- `envelope`: the response object around the output
- `growing`, `items`: the items of the output as they grow
- `events`: the events that tell of them
- `formatter`: `ResponseFormatter`, which shows those events as a stream, or the response as a whole
"""
