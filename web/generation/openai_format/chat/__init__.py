"""A chat in OpenAI's format.

- `schema`, `tool_schemas`: the body
- `messages`, `tools`, `reasoning`: the conversation that it holds
- `format`: the response objects; `answers`: the same for the OpenAPI document
"""
