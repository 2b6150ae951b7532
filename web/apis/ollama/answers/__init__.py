"""Answers in Ollama's API: the same events as lines of a stream, or as one object.

- `models`: the objects, and what both are made of, with tool calls, which Ollama sends whole
- `formatter`: `AnswerFormatter`, which shows them
"""
