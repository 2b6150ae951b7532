"""What a worker does that a cluster no longer knows."""
