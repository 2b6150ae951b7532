"""Unit tests of `runtime.prompt_rows`, module by module."""
