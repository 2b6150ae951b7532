"""Order: who goes first, and who makes room for it."""
