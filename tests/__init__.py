"""Tests, by what they need: see tests/README.md.

`unit` mirrors the source, `scenarios` run a whole engine in virtual time, `live` real servers over real sockets,
`sim` scenarios that are drawn from integers, `soak` a server for minutes, `mutants` known-bad edits.  `fakes` and
`models` are what they share, and `repository` checks the source itself.  Nothing of the product imports any of it.
"""
