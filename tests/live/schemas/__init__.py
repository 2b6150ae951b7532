"""Hundred real JSON schemas, and what models write under them.

- `data`: the schemas, with their licences; its README says where they are from and by which rule they were chosen
- `collect`: that rule
- `cases`: the schemas as they are asked for, and what is said of each
- `crowd`: clients that ask a server for outputs, four at a time, and hang up
- `run`: whole runs, and their reports: `python -m tests.live.schemas --generations 500`
"""
