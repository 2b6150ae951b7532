"""Who is more important takes the slot of who is less so, and nothing is lost."""
