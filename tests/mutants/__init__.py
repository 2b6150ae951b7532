"""Known-bad edits of the source, and what notices them: `python -m tests.mutants`.

The edits stand by area in `manager`, `slots`, `kv`, `cluster`, `steps`, `model`, `grammars`, `observers` and so on;
`table` has them all, `runner` makes one in a private copy and looks for what catches it, also by the programs of
`simulation`, and `page` writes and reads MUTANTS.md, where that is recorded.  `rotation` chooses the few that each run
of the test suite kills.
"""
