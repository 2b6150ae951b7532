"""Stored chat completions: what is kept of a chat with `"store": true`, and what may be done with it.

- `archive`: `CompletionArchive`, the completions as stored objects
- `handlers`: `StoredCompletions`, which shows, lists, changes and deletes them
- `schemas`, `answers`: the body of a change, and what is answered
"""
