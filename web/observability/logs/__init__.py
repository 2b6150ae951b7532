"""The log of a server: every record of Python's `logging`, ours and the libraries', in one of two formats.

- `formats`: a record as a mapping, which nobody can forge lines with, and this as text for people, or a line of JSON
- `handler`: writes lines in a thread, so that nobody waits for a reader
- `setup`: which of them, and where to

structlog does the formatting; who logs uses `logging`, with figures in `extra`.  The package knows nothing of servers.
"""
