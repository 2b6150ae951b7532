"""Warm requests in the simulation: who comes so, and I25, that they are in nobody's way."""
