"""Unit tests of `web.ollama`, module by module.

- `apps`: bodies and chats to be tested
"""
