"""Common parts of the generation endpoints of all APIs."""
