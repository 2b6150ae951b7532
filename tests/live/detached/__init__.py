"""Clients that leave, or are killed, and come back to their requests."""
