"""A real server whose streams are preempted."""
