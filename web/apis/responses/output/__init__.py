"""Output of a response, from the engine's events to its own.  Pure.

- `envelope`: the response object around the output
- `items`: the items of the output as they grow
- `events`: the events that tell of them, and `ResponseFormatter`, which shows them, or the response as a whole
"""
