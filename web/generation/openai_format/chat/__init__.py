"""A chat in OpenAI's format.

- `schema`, `tool_schemas`: the body
- `messages`, `tools`: the conversation that it holds
- `answers`: the response objects, and `ChatFormatter`, which writes them
"""
