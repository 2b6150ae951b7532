"""Servers of a small hybrid, LFM2: clients hang up on it, come back, and go on otherwise than they did."""
