"""The commands for people, on terminals of their own and in pipes, against a real server."""
