"""`python -m runtime.loading.ranks FD`: follow rank 0, which is at the other end of the socket that has this number.

The process ends when its standard input does, whatever it is at: that is a pipe from rank 0's process.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from multiprocessing.connection import Connection

from runtime.devices.parallel.lines import Line
from runtime.errors import DeviceLost

LOST = 1  # the process's status where another rank is gone

logger = logging.getLogger("cede.model")


def end_with_parent() -> None:
    """End this process when rank 0's is gone."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os._exit(LOST)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def main() -> None:
    """Follow until rank 0 is gone."""
    end_with_parent()
    from runtime.loading.ranks.follower import follow  # torch, whose import takes seconds

    try:
        follow(Line(Connection(int(sys.argv[1]))))
    except (DeviceLost, EOFError, OSError) as error:
        logger.warning("this rank ends: %s", error)
        os._exit(LOST)  # threads of the lost group may never end
    os._exit(0)  # likewise


main()
