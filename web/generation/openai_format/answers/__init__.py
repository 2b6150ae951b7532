"""Common parts of both endpoints' responses, on the way from the engine's events to bytes.

- `format`: what a request asks about its response, and where the endpoints differ
- `formatter`: `CompletionFormatter`, which shows a response as a stream, and as one that is sent whole
- `usage`: its cost
- `prompt_scores`: how likely the prompt's tokens were
- `objects`: what both endpoints answer, for the OpenAPI document
"""
