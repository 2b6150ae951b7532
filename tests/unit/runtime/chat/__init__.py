"""Chat templates and formats."""
