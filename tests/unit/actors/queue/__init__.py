"""Tests of `actors.queue`."""
