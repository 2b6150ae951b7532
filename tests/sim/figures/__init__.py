"""What many scenarios consist of, in figures."""
