"""Downloads from the Hugging Face hub, with the reason in plain words where one fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from huggingface_hub import constants, model_info, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from runtime.errors import CheckpointError
from runtime.log_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LIST_TIMEOUT = 20.0  # seconds for the list of a repository's files; the hub's client would wait for ever
NOT_GGUF = "cede reads folders in Hugging Face layout (config.json, *.safetensors, tokenizer.json), not GGUF yet"

# The files that a server reads, all at the top of the repository; other frameworks' copies of the weights are left out.
_FILES: dict[str, Any] = {
    "allow_patterns": ["*.json", "*.safetensors", "*.jinja", "tokenizer*", "merges.txt", "vocab.txt"],
    "ignore_patterns": ["*/*", "consolidated*"],
}

# Errors that are the hub's own answer: a copy from before is not served in spite of them.
_REFUSALS = (RepositoryNotFoundError, RevisionNotFoundError)  # a gated one is a kind of the former
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
    407: "the proxy wants a name and a password",
    429: "the hub has had too many requests from here; try again later",
}


def download(repository: str) -> Path:
    """Return the folder of a repository (`org/name`) in the hub's own cache, and download what is not there yet.

    Raises:
        CheckpointError: the download failed; the message says why, and names the proxy if there is one.
    """
    try:
        names = [file.rfilename for file in model_info(repository, timeout=LIST_TIMEOUT).siblings or ()]
    except _REFUSALS as error:
        raise _not_loaded(repository, error) from error
    except Exception as error:  # the hub's client raises its HTTP library's errors, and has changed that library
        if (folder := _cached(repository)) is None:
            raise _not_loaded(repository, error) from error
        return folder
    if any(name.endswith(".gguf") for name in names) and not any(name.endswith(".safetensors") for name in names):
        raise CheckpointError(f"{repository}: holds GGUF files; {NOT_GGUF}")
    try:
        return Path(snapshot_download(repository, **_FILES))
    except Exception as error:
        raise _not_loaded(repository, error) from error


def _cached(repository: str) -> Path | None:
    """Return the folder of an earlier download; None if there was none."""
    try:
        return Path(snapshot_download(repository, local_files_only=True, **_FILES))
    except (LocalEntryNotFoundError, OSError, ValueError):  # it is not there, not readable, or not a name of the hub's
        return None


def _not_loaded(repository: str, error: Exception) -> CheckpointError:
    return CheckpointError(f"{repository}: not loaded from the hub: {_reason(error)}")


def _reason(error: Exception) -> str:
    """Say why a download failed, on one line."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason
    chain = list(_chain(error))
    for cause in chain:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"the disk is full: {constants.HF_HUB_CACHE} (HF_HOME names another place)"
        if isinstance(cause, PermissionError):
            return f"{cause.filename or constants.HF_HUB_CACHE}: {cause.strerror}"
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
