"""What the front door's router is told."""
