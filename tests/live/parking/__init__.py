"""A real server whose streams are parked."""
