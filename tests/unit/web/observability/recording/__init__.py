"""Recordings of what the engine did."""
