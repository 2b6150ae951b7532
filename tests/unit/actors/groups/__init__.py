"""Requests that say something of one another."""
