"""The page's routes and files."""
