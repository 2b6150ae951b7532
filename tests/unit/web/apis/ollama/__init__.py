"""Unit tests of `web.apis.ollama`, module by module.

- `apps`: bodies and chats to be tested
"""
