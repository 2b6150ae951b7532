"""Whole engines in virtual time, and steps of real models: what no single module shows."""
