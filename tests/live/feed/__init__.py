"""The feed of a real server."""
