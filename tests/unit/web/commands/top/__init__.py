"""Tests of what `cede top` shows, but for what needs a terminal."""
