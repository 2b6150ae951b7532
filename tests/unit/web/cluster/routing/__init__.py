"""Events for the front door's router."""
