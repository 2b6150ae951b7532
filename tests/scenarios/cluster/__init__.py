"""Promises of a cluster, kept by whole engines in virtual time."""
