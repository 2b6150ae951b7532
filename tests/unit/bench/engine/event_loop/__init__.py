"""Tests of what measures the event loop."""
