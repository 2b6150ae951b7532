"""Tests of `actors.parking`."""
