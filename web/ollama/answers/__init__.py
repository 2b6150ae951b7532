"""Answers in Ollama's API: the same events as lines of a stream, or as one object.

- `objects`: what both are made of; `calls`: tool calls, which Ollama sends whole
- `writer`: `LineWriter`; `builder`: `AnswerBuilder`
- `models`: the objects as the OpenAPI document shows them
"""
