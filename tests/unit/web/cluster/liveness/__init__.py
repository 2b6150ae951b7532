"""Checks of a worker against discovery, when a cluster no longer knows it."""
