"""The APIs.  What several of them share is in `web.generation`; none imports another, but for `models`.

The path of a request says which folder answers it:

    openai     /v1/chat/completions, /v1/completions, /v1/embeddings
    responses  /v1/responses, /v1/conversations
    anthropic  /v1/messages
    ollama     /api/...
    infill     /infill of llama-server, /v1/fim/completions of Mistral
    utilities  /tokenize, /detokenize, /apply-template, /props, /version; /rerank, which is refused
    models     /v1/models, for OpenAI's clients and Anthropic's

Beside these: `web.observability` has /health, /slots, /v1/events, /v1/receipts, /v1/requests, /v1/statistics, /metrics
and the page; `web.storage.detached` has /v1/requests/.../stream and .../result, `web.generation.control` /v1/groups,
`web.openapi` /docs and /openapi.json.
"""
