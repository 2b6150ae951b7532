"""Control across workers."""
