"""The files of the page that shows the document: two of ours, and RapiDoc (https://rapidocweb.com, MIT licence).

RapiDoc is taken as it is published, so that no request leaves the server's origin:

    python -m web.openapi.viewer_files

fetches it again from npm's registry and writes it into `viewer`, if it is the very archive that is named here.  For
another version, change `RAPIDOC` and the digests, which are printed.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from web.openapi.npm_archive import NpmArchive

RAPIDOC = NpmArchive(
    "rapidoc",
    "9.3.8",
    "sha512-eCYEbr1Xr8OJZvVCw8SXl9zBCRoLJbhNGuG5IZTHq/RWAOq/O4MafUCuFEyZHsrhLrlUcGZMa64pyhpib8fQKQ==",
    {
        "dist/rapidoc-min.js": "rapidoc-min.js",
        "dist/rapidoc-min.js.LICENSE.txt": "rapidoc-min.js.LICENSE.txt",
        "LICENSE.txt": "rapidoc-LICENSE.txt",
    },
)

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


def main() -> None:
    """Fetch the archive, and write the files."""
    from pathlib import Path

    for name, content in RAPIDOC.fetch().items():
        Path(str(FOLDER / name)).write_bytes(content)
        print(f"{name}: {len(content)} bytes, {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
