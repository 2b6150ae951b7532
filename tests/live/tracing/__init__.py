"""Traces, as a collector gets them."""
