"""Lock of a file between processes.  It ends with the descriptor."""

from __future__ import annotations

import errno


def lock_file(descriptor: int, *, wait: bool = True) -> None:
    """Lock an open file for oneself.

    Raises:
        BlockingIOError: another process has it, and that is not to be waited for.
        OSError: it cannot be locked.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        raise OSError(errno.ENOTSUP, "cede cannot lock files on this system") from None
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
