"""Bad edits of the engine's packages above the slot manager."""
