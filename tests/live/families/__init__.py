"""Servers of small models whose layers have a window, experts or latents: clients hang up on them, and come back."""
