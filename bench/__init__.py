"""Benchmarks.  What web/commands/main.py does for OpenMP before torch is imported is done here."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")
