"""Models out of packages."""
