"""The libraries of the page, as they are published on npm.

    python -m web.observability.page.vendored

fetches them again and writes them into `site/vendor`, if they are the very archives that are named here.  For another
version, change its archive and the digests, which are printed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from web.observability.page.files import FOLDER
from web.openapi.npm_archive import NpmArchive

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

VENDOR = FOLDER / "vendor"

_LANGUAGES = "bash c cpp css diff go java javascript json python rust sql typescript xml yaml".split()

LIBRARIES = (
    NpmArchive(
        "marked",
        "18.2.1",
        "sha512-ii4bxCTCqqwpT86XZWgJNs+ZnAIZksmLGYMViWA7PDIXYIeNo1x6cDdX3JOip9NM/cI6p8z57FxliACboTruMA==",
        {"lib/marked.esm.js": "marked.js", "LICENSE": "marked-LICENSE.txt"},
    ),
    NpmArchive(
        "dompurify",
        "3.4.18",
        "sha512-ofe3wI/uNm68HInABYFJYqQxRw1EaKAjNdrFVKqjUY+UZurvNd2L/HuQe097s/4RivWiZyP6tT7aoT8atjfhwg==",
        {"dist/purify.es.mjs": "purify.js", "LICENSE": "purify-LICENSE.txt"},
    ),
    NpmArchive(
        "@highlightjs/cdn-assets",
        "11.12.0",
        "sha512-KvOKXODaiFmId9xaq3xc5xCL66wVLUuOngDbO9B/kewbFTqdGbn2nJxNhN3H5R1cgDTVj6R8vH0zgiNDEGjpDw==",
        {"es/core.min.js": "highlight/core.js", "LICENSE": "highlight/LICENSE.txt"}
        | {f"es/languages/{name}.min.js": f"highlight/{name}.js" for name in _LANGUAGES},
    ),
    NpmArchive(
        "katex",
        "0.19.1",
        "sha512-jG8uKntjSEcm2EpQOh0XturpPuuC9r3Sq5HLHdsFdWZT27E672SF19QEi+of0/YeOy15lDgRhKvr5614uRrEfA==",
        {"dist/katex.min.js": "katex.js", "LICENSE": "katex-LICENSE.txt"},
    ),
)
"""Markdown to HTML (MIT licence); what of HTML may be shown (Apache 2.0 or MPL 2.0); colours of code (BSD);
TeX to MathML (MIT)."""

DIGESTS = {
    "marked.js": "5371fea86fd0656b4fc7bea7c94c6631",
    "marked-LICENSE.txt": "8e3a3f82f59a60958f56ca08f445647c",
    "purify.js": "1a06b721ad8b46d6174b21f22ea70290",
    "purify-LICENSE.txt": "cfc7749b96f63bd31c3c42b5c471bf75",
    "katex.js": "fa140498b8cfc8302cbe5e7cb1bdbc1f",
    "katex-LICENSE.txt": "766ccc1f306c885aa45542a9846bbd0a",
    "highlight/core.js": "67a339aa68880a40c9803def9c8cebb2",
    "highlight/LICENSE.txt": "6c081431591d9df696c82dc598fe1423",
    "highlight/bash.js": "7db1758fe6f04cd410760c29879812a3",
    "highlight/c.js": "edada72825cceb7dec51cc785efcc3e6",
    "highlight/cpp.js": "aa67eeacdbbda9f40ca34c59147581ae",
    "highlight/css.js": "2f4264d9a07a4f5446e51e2d93b0c0e0",
    "highlight/diff.js": "cbd7cf3b49bee36d6a0cf97789a7c5e6",
    "highlight/go.js": "05658f281f7f12233cd891e879c8b9eb",
    "highlight/java.js": "7987da1c2dcc1d83f7a5a670cdc622fd",
    "highlight/javascript.js": "c3dbd515a79e2c00ff4535aa5ad2fe53",
    "highlight/json.js": "8f2343ffbcc4fdea4b336a4241d54d22",
    "highlight/python.js": "fd5d479dcc9d07b957cf07b1df76d3d8",
    "highlight/rust.js": "fde151d2b246bef44c98da80e7cac3cb",
    "highlight/sql.js": "79bead5cf2bfa93d3982073d000a9780",
    "highlight/typescript.js": "0e10ce9a81d42f8d43a54007ca7e31fe",
    "highlight/xml.js": "2e8c8ba1e7a200cd83dfbf9c746b8e00",
    "highlight/yaml.js": "7010955f1f87aef1de085483d79d4281",
}
"""The first half of the SHA-256 of what was taken, by which a test sees that nobody has edited it."""


def digest(file: Traversable) -> str:
    """Return a file's digest, as it stands above."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:32]


def main() -> None:
    """Fetch the archives, and write the files."""
    from pathlib import Path

    for library in LIBRARIES:
        for name, content in library.fetch().items():
            path = Path(str(VENDOR / name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            print(f'    "{name}": "{digest(path)}",')


if __name__ == "__main__":
    main()
