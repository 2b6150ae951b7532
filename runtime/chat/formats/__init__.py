"""The formats in which families write tool calls.

Each is a `ToolFormat` (`format`): it reads an answer as parts, and says in a grammar what an answer may be.

- `hermes`: JSON between markers
- `generic`: the same, for templates that know no tools
- `choose`: which of them a model has
"""
