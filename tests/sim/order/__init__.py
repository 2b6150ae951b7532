"""Order: who goes first, and that nobody starves: I8, and what it is measured by."""
