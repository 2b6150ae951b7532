"""What prompts give besides KV, with the whole engine."""
