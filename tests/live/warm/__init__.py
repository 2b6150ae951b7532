"""Warm requests, of a real server."""
