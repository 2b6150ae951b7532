"""Engines whose tokens depend on nobody else, in bfloat16."""
