"""Filling in the middle: llama-server's `POST /infill` and Mistral's `POST /v1/fim/completions`.

The prompt is `web.generation.infill`'s, as for the `suffix` of other APIs.

- `schemas`: the bodies
- `parse`: `parse_infill`, the body of `/infill` as a request, and `parse_fim`, that of `/v1/fim/completions`, which is
  answered as a chat
- `answers`: its answers, in a stream or whole
- `routes`: `add_routes`
"""
