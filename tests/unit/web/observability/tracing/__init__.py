"""The traces of requests."""
