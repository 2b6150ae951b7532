"""OpenAI's bodies, answers and errors, as far as other APIs have them: llama-server's, Mistral's and vLLM's.

- `schemas`: what the bodies of generation endpoints have in common
- `requests`: a body as a request to the engine, and as what it asks of its answer
- `answers`: what answers are made of, streamed or whole
- `chat`: the body of a chat, its conversation, and its answer
- `errors`: the error object, which cede's own routes have as well
"""
