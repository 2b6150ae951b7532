"""Stored objects: what is kept, for how long, and what a kill or damage leaves."""
