"""Wheels that hold a model, or something hostile, and pip told to look for them in a folder alone."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    project: str,
    version: str,
    files: Mapping[str, bytes],
    requires: Sequence[str] = (),
    record: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a wheel of a project into a folder.

    Args:
        folder: is made if need be.
        project: its name, with underscores.
        version: its version.
        files: their names in the wheel and contents.
        requires: what it depends on.
        record: the contents that RECORD has hashes of, where these are not those of `files`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    own = f"{project}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {project.replace('_', '-')}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in (record or files).items()]
    path = folder / f"{project}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
        wheel.writestr(f"{own}/METADATA", metadata)
        wheel.writestr(f"{own}/WHEEL", tags)
        wheel.writestr(f"{own}/RECORD", "\n".join([*rows, f"{own}/RECORD,,"]) + "\n")
    return path


def pip_settings(folder: Path) -> dict[str, str]:
    """Return the variables by which pip finds packages in a folder and nowhere else."""
    return {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
