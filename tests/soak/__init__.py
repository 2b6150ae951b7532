"""A real server for minutes under clients of every kind: `python -m tests.soak`; a few seconds of it are a test."""
