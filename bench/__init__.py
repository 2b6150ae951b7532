"""Benchmarks: of servers over HTTP (`bench.client`) and of the engine alone (`bench.engine`).

`bench.training` made the embedded model, and `bench.corpus` has the texts for both.  `bench/README.md` says how to run
what, and `bench/LOG.md` what was measured.  As the command line does for a server, this sets how long OpenMP's threads
spin, which is read once, when torch is imported.
"""

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")
