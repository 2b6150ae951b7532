"""Unit tests of `web.commands.options`; `choosing` gives options values that are not their defaults."""
