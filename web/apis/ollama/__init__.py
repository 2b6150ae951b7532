"""Ollama's API, version 0.12: chats and completions as NDJSON, and what is known of the one model that is served.

A model is neither fetched nor made, copied or deleted here: those endpoints refuse.

- `routes`: `add_routes`, the endpoints
- `schemas`: the request bodies, and their `options`
- `conversations`: messages as a conversation
- `parse`: a body as what it asks for; `asked`: the request, or a `LoadRequest`
- `answers`: streams and whole answers, and the shape of every refusal
- `listing`: the model as `/api/tags`, `/api/show` and `/api/ps` show it
"""
