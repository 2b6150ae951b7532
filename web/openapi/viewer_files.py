"""The files of the page that shows the document: two of ours, and RapiDoc (https://rapidocweb.com, MIT licence).

RapiDoc is taken as it is published, so that no request leaves the server's origin:

    python -m web.openapi.viewer_files

fetches it again from npm's registry and writes it into `viewer`, if it is the very archive that is named here.  For
another version, change `VERSION`, `INTEGRITY` (`npm view rapidoc dist.integrity`) and the digests, which are printed.
"""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import urllib.request
from importlib.resources import files

PACKAGE, VERSION = "rapidoc", "9.3.8"
INTEGRITY = "sha512-eCYEbr1Xr8OJZvVCw8SXl9zBCRoLJbhNGuG5IZTHq/RWAOq/O4MafUCuFEyZHsrhLrlUcGZMa64pyhpib8fQKQ=="
ARCHIVE = f"https://registry.npmjs.org/{PACKAGE}/-/{PACKAGE}-{VERSION}.tgz"

VENDORED = {
    "package/dist/rapidoc-min.js": "rapidoc-min.js",
    "package/dist/rapidoc-min.js.LICENSE.txt": "rapidoc-min.js.LICENSE.txt",
    "package/LICENSE.txt": "rapidoc-LICENSE.txt",
}
"""What is taken of the archive, and the name that it gets here."""

DIGESTS = {
    "rapidoc-min.js": "affbd173a65e870e18f392cca963113bcdafb6e50e88cd2f6a834a65b22db94d",
    "rapidoc-min.js.LICENSE.txt": "b6366d212427ca41732dd93ce56a47ceaf7a0902edc2e90b22ca6a9d6feff20e",
    "rapidoc-LICENSE.txt": "92682ac573adb5e1357f1f41dd0eaa2f0e9dd6116b569218978c2469c1cd085c",
}
"""SHA-256 of what was taken, by which a test sees that nobody has edited it."""

FOLDER = files("web.openapi") / "viewer"


def read_file(name: str) -> bytes:
    """Return the content of one of the viewer's files."""
    return (FOLDER / name).read_bytes()


def extract(archive: bytes) -> dict[str, bytes]:
    """Return the files that are taken of the archive, under their names here.

    Raises:
        ValueError: the archive is another one.
    """
    digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if INTEGRITY != f"sha512-{digest}":
        raise ValueError(f"{ARCHIVE} has changed: sha512-{digest} is not {INTEGRITY}")
    taken = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member, name in VENDORED.items():
            content = opened.extractfile(member)
            assert content is not None, member
            taken[name] = content.read()
    return taken


def main() -> None:
    """Fetch the archive, and write the files."""
    from pathlib import Path

    with urllib.request.urlopen(ARCHIVE, timeout=60) as response:
        taken = extract(response.read())
    for name, content in taken.items():
        Path(str(FOLDER / name)).write_bytes(content)
        print(f"{name}: {len(content)} bytes, {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
