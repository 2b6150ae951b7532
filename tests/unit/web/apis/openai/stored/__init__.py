"""Stored chat completions, over HTTP with a scripted engine."""
