"""`python -m bench.overhead`: the engine against a bare loop over the same model (`bench.engine.overhead`)."""

import trio

from bench.engine.overhead import main

if __name__ == "__main__":
    trio.run(main)
