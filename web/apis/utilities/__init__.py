"""Endpoints beside the chats and completions that llama-server's and vLLM's clients ask for.

- `routes`: `add_routes`, the endpoints; `answers`: their answers
- `tokens`: texts and conversations as tokens and back, and prompts as the chat template writes them
"""
