"""Translation between the front door and the engine."""
