"""Servers of which the same tokens are asked in bfloat16, whoever else is served."""
