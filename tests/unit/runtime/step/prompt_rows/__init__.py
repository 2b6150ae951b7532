"""Unit tests of `runtime.step.prompt_rows`, module by module."""
