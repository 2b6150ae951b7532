"""Figures of many scenarios."""
