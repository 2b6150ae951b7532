"""pip as a child process that ends with its parent, however that ends: its standard input is a pipe from there.

python -P runtime/store/packages/pip_child.py download ...
"""

from __future__ import annotations

import os
import runpy
import sys
import threading

ENDED = 1  # the exit status when the parent is gone


def _end_with_parent() -> None:
    """Wait for the end of the pipe; nothing is ever written to it."""
    os.read(0, 1)
    os._exit(ENDED)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv[0] = "pip"
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
