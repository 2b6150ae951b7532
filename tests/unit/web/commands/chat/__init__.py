"""Tests of the chat at a terminal, but for what needs a terminal."""
