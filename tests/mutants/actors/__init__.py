"""Bad edits of the engine's rooms above the slot manager."""
