"""Calls as a model writes them, from its weights to the client."""
