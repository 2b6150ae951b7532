"""Several ranks that compute a model together."""
