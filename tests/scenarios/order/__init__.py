"""Who goes first, and who makes room for it."""
