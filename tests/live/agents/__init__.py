"""Coding agents, as npm and PyPI have them, each of which works with a model that says what it is told.

- `package.json`, `requirements.txt`: the agents, with the versions of all that they are made of
- `installed`: installing them
- `agents`: how each is called and configured, and how it writes a file and runs a command
- `scripts`: the model that tells them to
"""
