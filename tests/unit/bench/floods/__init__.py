"""Unit tests of `bench.floods`: what is sent, and how its impact is told."""
