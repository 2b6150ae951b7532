"""What clients of a real server get and see: libraries, TLS, keys, numbers, the log, hostile bodies."""
