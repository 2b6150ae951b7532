"""The `openai` package for Python, as everyone uses it, against a real server."""
