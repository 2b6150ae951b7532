"""Reading answers piece by piece."""
