"""Hostile requests of every kind on one server, to all its routes, and two neighbours that decode beside them.

    python -m tests.live.hostile --requests 10000 --seed 5 --size 15000000

- `crowd`: sends them, and compares the neighbours' tokens with those that they have alone
- `harass`: a whole run, and what is looked at behind it
"""
