"""What a model writes as calls, from its weights to the client."""
