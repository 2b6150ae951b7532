"""Chat completions.

- `schema`, `tool_schemas`: the body
- `messages`, `tools`, `reasoning`: the conversation that it holds
- `parse`: `parse_chat`, the body as a request
- `format`: the response objects; `answers`: the same for the OpenAPI document
- `record`: what is stored beside them
"""
