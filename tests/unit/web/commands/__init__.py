"""Unit tests of `web.commands`, module by module.

- `choosing`: what `cede serve` would take from flags, variables and a file; and values of options that are not the
  defaults.
"""
