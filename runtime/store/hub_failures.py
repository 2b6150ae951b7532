"""Reasons why a model could not be had from the hub, in plain words and on one line, with what would help."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from runtime.common.log_text import printable
from runtime.errors import CheckpointError
from runtime.store.failures import FORBIDDEN, FULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_REASONS: tuple[tuple[type[Exception], str], ...] = (  # a class before those it inherits from
    (GatedRepoError, "access to it must be asked for on its page, then log in (hf auth login)"),
    (
        RepositoryNotFoundError,
        "there is no such repository, or it is private (hf auth login), and no such folder here either",
    ),
    (RevisionNotFoundError, "the repository has no main revision"),
    (HFValidationError, "the hub has no such names: letters, digits, - _ . but not --, ..; at most 96 characters"),
    (OfflineModeIsEnabled, "it is not in the local cache, and HF_HUB_OFFLINE forbids downloads"),
)
_STATUS = {
    401: "the hub wants to know who asks (hf auth login, or HF_TOKEN)",
    403: "the hub does not let this token read it",
    404: "the hub has no such file",
    407: "the proxy wants a name and a password",
    429: "the hub has had too many requests from here; try again later",
}


def hub_failure(name: str, error: Exception) -> CheckpointError:
    """Make the error for a repository that could not be had from the hub."""
    return CheckpointError(f"{name}: not loaded from the hub: {_hub_reason(error)}")


def _hub_reason(error: Exception) -> str:
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    chain = list(_chain(error))
    for cause in chain:
        if isinstance(cause, OSError) and cause.errno in FULL:
            return f"the disk is full: {constants.HF_HUB_CACHE} (HF_HOME names another place)"
        if isinstance(cause, OSError) and cause.errno in FORBIDDEN:
            return f"{cause.filename or constants.HF_HUB_CACHE}: {cause.strerror} (HF_HOME names another place)"
    return f"{_network_reason(error, chain)}{_by_proxy()}"


def _network_reason(error: Exception, chain: Sequence[BaseException]) -> str:
    """Say what happened on the network, by the errors' names, which HTTP libraries have in common."""
    for cause in chain:
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if isinstance(status, int):
            return _STATUS.get(status, f"{constants.ENDPOINT} answers with status {status}")
        if "ProxyError" in type(cause).__name__:
            return f"the proxy refuses or does not answer: {_first_line(cause)}"
        if "Timeout" in type(cause).__name__:
            return f"{constants.ENDPOINT} does not answer"
        if isinstance(cause, ConnectionError) or "ConnectError" in type(cause).__name__:
            return f"{constants.ENDPOINT} cannot be reached: {_first_line(cause)}"
    return _first_line(error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, the nearest first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _first_line(error: BaseException) -> str:
    line = next(iter(str(error).splitlines()), "")
    return printable(f"{type(error).__name__}: {line}" if line else type(error).__name__)[:300]


def _by_proxy() -> str:
    """Name the proxy that was asked, without its password; empty for none."""
    scheme = urlsplit(constants.ENDPOINT).scheme
    for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
        if value := os.environ.get(name):
            return f" (through {name}={_without_password(value)})"
    return ""


def _without_password(proxy: str) -> str:
    before, at, host = proxy.rpartition("@")
    scheme, slashes, _ = before.rpartition("://")
    return printable(f"{scheme}{slashes}***@{host}" if at else proxy)
