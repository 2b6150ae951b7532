"""Requests that are drawn from the OpenAPI document, against the application and against a real server."""
