"""Hostile requests: what they are (`catalogue`) and how they are sent (`sending`).

Each attack is made beforehand, as bytes, so that the client is not busy while a neighbour's tokens are timed.  The
scenario `hostile` uses this package, which rests on `bench.client.harness`.
"""
