"""nginx and HAProxy in front of a server, as `deploy/` configures them.  Skipped where they are not installed."""
