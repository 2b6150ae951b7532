"""Tests of what is said of the families."""
