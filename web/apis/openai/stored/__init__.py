"""Stored chat completions: what is kept of a chat with `"store": true`, and what may be done with it.

- `handlers`: `keeper`, which stores one, and the routes that show, list, change and delete them
- `answers`: what is answered
"""
