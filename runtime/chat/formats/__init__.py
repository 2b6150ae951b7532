"""The formats in which families write tool calls and reasoning."""
