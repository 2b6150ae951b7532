"""The log's two formats, and who chooses."""
