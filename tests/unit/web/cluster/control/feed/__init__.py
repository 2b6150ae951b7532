"""The feed of all workers."""
