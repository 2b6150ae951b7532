"""`python -m tests.simulate`, as it was called before it was `python -m tests.sim`."""

import sys

from tests.sim.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
