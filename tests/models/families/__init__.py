"""Writers of small checkpoints, and those of the families that have many switches."""
