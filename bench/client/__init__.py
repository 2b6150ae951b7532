"""`cede bench`: load over HTTP on any server that speaks OpenAI's API, and reports on several servers side by side.

The packages, from the bottom: `harness` measures, `attacks` makes hostile requests, `scenarios` are the benchmarks, and
beside these `reports` makes pages of their records.  `cli` has the commands, and `command` is how `cede` finds them
without importing any of it.
"""
