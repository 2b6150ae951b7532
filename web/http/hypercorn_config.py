"""Settings of Hypercorn's parts."""

from __future__ import annotations

import logging
import sys

from hypercorn.config import Config

from web.process.limits import HANDSHAKE_TIMEOUT, KEEP_ALIVE


def hypercorn_config() -> Config:
    """Make it."""
    config = Config()
    config.keep_alive_timeout = KEEP_ALIVE
    config.keep_alive_max_requests = sys.maxsize  # a request's number is no reason to end a connection
    config.ssl_handshake_timeout = HANDSHAKE_TIMEOUT
    config.include_server_header = False
    config.errorlog = logging.getLogger("cede.web")  # or it makes a handler of its own
    return config
