"""Benchmarks.  What the command line does for OpenMP before torch is imported is done here for them (see web/cli.py)."""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")
