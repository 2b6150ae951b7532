"""Tests of what the commands for people share."""
