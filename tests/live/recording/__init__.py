"""Recordings of real servers."""
