"""Benchmarks: of servers over HTTP (`bench.client`) and of the engine alone (`bench.engine`).

Beside them stand `bench.cluster`, `bench.floods` and `bench.page`; `bench.overhead` is a short name for the engine's.
`bench.training` made the embedded model, and `bench.corpus` has the texts.  `bench/README.md` says how to run what, and
`bench/LOG.md` what was measured.  As the command line does for a server, this sets what the libraries below torch read
once; but OpenMP's threads spin for a shorter while.
"""

import os

from web.process.torch_settings import settle

os.environ.setdefault("GOMP_SPINCOUNT", "1000")
settle(os.environ)
