"""Whole engines over small models of families whose layers differ: what is promised holds for each of them.

`engines` opens one, with its prefix cache, and asks it.
"""
