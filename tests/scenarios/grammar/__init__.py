"""Outputs that are held to a grammar: whole engines over the embedded model and over the stand-in."""
