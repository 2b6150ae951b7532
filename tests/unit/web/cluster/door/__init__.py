"""The passage before Dynamo's HTTP server."""
