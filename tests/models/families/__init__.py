"""How small checkpoints are written, and those of the families that have many switches."""
