"""What the generation endpoints of all APIs share."""
