"""`cede bench`: load over HTTP on any server that speaks OpenAI's API, and reports on several servers side by side.

From the bottom: `harness` measures, `attacks` makes hostile requests, `scenarios` are the benchmarks, and `reports`
    turns
their records into pages.  `cli` has the commands; `command` is how `cede` finds them without importing any of it.
"""
