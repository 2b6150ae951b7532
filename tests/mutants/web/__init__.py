"""Bad edits of what is above the engine."""
