"""Tests of the slots' records and places."""
