"""Chat completions; their body and their answers are in `web.generation.openai_format.chat`.

- `parse`: `parse_chat`, the body as a request
- `record`: what is stored beside an answer
"""
