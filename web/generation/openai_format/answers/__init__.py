"""Common parts of both endpoints' responses, on the way from the engine's events to bytes.

- `options`: what a request asks about its response
- `formatter`: `CompletionFormatter`, which shows a response as a stream, and as one that is sent whole
- `usage`: its cost
- `prompt_scores`: how likely the prompt's tokens were
"""
