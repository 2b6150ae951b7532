"""Grammars: what an output must be, and which tokens may come next.

Pure and synchronous.  `llguidance` compiles grammars and computes masks; only this package knows it.

- `grammar`: `Grammar`, in source form, as requests have it
- `schemas`: JSON schemas as llguidance takes them, and what it would pass over; `closed`, `endless`: properties that
  are not listed, and references in a circle
- `sources`: what is refused before anything is compiled, and a grammar in llguidance's words
- `compiler`: `GrammarCompiler`, of one model, and its tokens in llguidance's words
- `matcher`: `Matcher`, which follows one output
- `budget`: `BudgetMatcher`, which bounds what is thought
- `masks`: `Mask`, of one position, computed by whoever comes to it first
- `worker`: `MaskWorker`, the thread that computes masks beside the device's steps
"""
