"""Filling in the middle: llama-server's `POST /infill` and Mistral's `POST /v1/fim/completions`.

The prompt is `web.generation.infill`'s, as for the `suffix` of other APIs.

- `schemas`: the bodies
- `parse`: `parse_infill`, the body of `/infill` as a request
- `answers`: its answers, in a stream or whole
- `fim`: `parse_fim`, the body of `/v1/fim/completions` as a request, which is answered as a chat
- `routes`: `add_routes`
"""
