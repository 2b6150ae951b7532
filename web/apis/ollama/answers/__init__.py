"""Answers in Ollama's API: the same events as lines of a stream, or as one object.

- `objects`: what both are made of, with tool calls, which Ollama sends whole
- `formatter`: `AnswerFormatter`, which shows them
- `models`: the objects as the OpenAPI document shows them
"""
