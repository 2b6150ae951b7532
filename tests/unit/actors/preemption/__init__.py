"""Tests of `actors.preemption`."""
