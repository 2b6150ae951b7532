"""Warm requests: read ahead of time, and in nobody's way."""
