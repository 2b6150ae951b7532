"""Downloads from the Hugging Face hub, into the hub's own cache.

The hub's client does most of the work, and gives a file its name when it is whole; large files, of which the hub has
the SHA-256, go through `fetch_large`.  Files are fetched one after the other, in the calling thread: so a signal's
exception ends the download at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from huggingface_hub import (
    constants,
    hf_hub_download,
    hf_hub_url,
    model_info,
    snapshot_download,
    try_to_load_from_cache,
)
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers, disable_progress_bars

from runtime.common.file_lock import lock_file
from runtime.common.units import counted, format_size
from runtime.errors import CheckpointError
from runtime.store.failures import refuse_too_large
from runtime.store.gguf_names import choose_gguf, gguf_models
from runtime.store.hub_failures import hub_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runtime.store.names import HubName
    from runtime.store.progress import Progress

LARGEST = 50 * 10**9  # bytes; the hub sends larger files in pieces alone, which its client asks for


def fetch_large(repository: str, file: str, size: int, sha256: str, progress: Progress) -> None:
    """Put a file's content into the hub's cache, unless it is there or larger than `LARGEST`.

    The hub's client begins each file anew.  So that a download which was cut off goes on where it was, what is large is
    fetched here, by the client's own functions, into the client's cache, under the name that its content has there; the
    client finds it and does the rest.

        CACHE/models--org--name/blobs/<sha256>              the content, once its SHA-256 is the one that the hub says
        CACHE/models--org--name/blobs/<sha256>.incomplete   what has come of it; locked (flock) by whoever fetches it

    Args:
        repository: `org/name`.
        file: its name there.
        size: of it, bytes.
        sha256: of it, as the hub says.
        progress: is told how far it is verified; the client draws a bar for what comes.

    Raises:
        CheckpointError: what has come is another content; it is removed.
        Exception: whatever the hub's client raises.
    """
    blob = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}" / "blobs" / sha256
    if size > LARGEST or blob.exists():
        return
    blob.parent.mkdir(parents=True, exist_ok=True)
    partial = blob.with_name(f"{sha256}.incomplete")
    with partial.open("a+b") as target:
        lock_file(target.fileno())
        if blob.exists() or not partial.exists():  # another process has had it in hand meanwhile
            return
        if (done := os.fstat(target.fileno()).st_size) > size:
            target.truncate(done := 0)
        if done:
            progress.say(f"going on with {file}")
        http_get(
            hf_hub_url(repository, file),
            target,
            resume_size=done,
            headers=build_hf_headers(),
            expected_size=size,
            displayed_filename=file,
        )
        target.flush()
        found = _sha256(target, file, size, progress)
        if found != sha256:
            partial.unlink()
            raise CheckpointError(
                f"{file}: its SHA-256 is {found}, and the hub says {sha256}; it was removed: download it again"
            )
        os.fsync(target.fileno())
        partial.rename(blob)


def _sha256(opened: BinaryIO, file: str, size: int, progress: Progress) -> str:
    digest, done = hashlib.sha256(), 0
    opened.seek(0)
    while part := opened.read(1 << 20):
        digest.update(part)
        done += len(part)
        progress.advance(f"verifying {file}", done, size)
    return digest.hexdigest()


LIST_TIMEOUT = 20.0  # seconds for the list of a repository's files; the hub's client would wait for ever

# The files that a server reads, all at the top of the repository; other frameworks' copies of the weights are left out.
_WANTED = ("*.json", "*.safetensors", "*.jinja", "tokenizer*", "merges.txt", "vocab.txt")
_UNWANTED = ("*/*", "consolidated*")
_INDEX = "model.safetensors.index.json"

# Errors that are the hub's own answer: a copy from before is not served in spite of them.
_REFUSALS = (RepositoryNotFoundError, RevisionNotFoundError)  # a gated one is a kind of the former


def download(name: HubName, progress: Progress) -> Path:
    """Return where a model of the hub lies, and download what is not there yet.

    Returns:
        The folder of a repository in Hugging Face's layout; or a GGUF file, the first one of a split set.

    Raises:
        CheckpointError: the repository has no such model, or the download failed; the message says why, and names the
            proxy if there is one.
    """
    try:
        siblings = model_info(name.repository, files_metadata=True, timeout=LIST_TIMEOUT).siblings or ()
    except _REFUSALS as error:
        raise hub_failure(str(name), error) from error
    except Exception as error:  # the hub's client raises its HTTP library's errors, and has changed that library
        if (found := _cached(name)) is None:
            raise hub_failure(str(name), error) from error
        return found
    files = {sibling.rfilename: sibling for sibling in siblings}
    wanted = chosen_files(name, files)
    try:
        return _fetch(name, {file: files[file] for file in wanted}, progress)
    except CheckpointError:
        raise
    except Exception as error:
        raise hub_failure(str(name), error) from error


def chosen_files(name: HubName, files: Iterable[str]) -> Sequence[str]:
    """Return which of a repository's files a name stands for, the one that is opened first.

    Raises:
        CheckpointError: there are no such files.
    """
    files = list(files)
    folder = [file for file in files if _is_wanted(file)]
    if name.tag is None and (not gguf_models(files) or any(file.endswith(".safetensors") for file in folder)):
        if "config.json" not in folder:
            raise CheckpointError(f"{name}: holds neither config.json with safetensors files nor a GGUF file")
        return sorted(folder, key=lambda file: file != "config.json")
    return choose_gguf(name.repository, files, name.tag)


def _is_wanted(file: str) -> bool:
    return any(fnmatch(file, pattern) for pattern in _WANTED) and not any(fnmatch(file, no) for no in _UNWANTED)


def _fetch(name: HubName, files: Mapping[str, Any], progress: Progress) -> Path:
    """Download what is not in the cache yet; return the first file, or its folder if that is a config.json."""
    absent = [file for file in files if not isinstance(try_to_load_from_cache(name.repository, file), str)]
    size = sum(files[file].size or 0 for file in absent)
    if absent:
        cache = Path(constants.HF_HUB_CACHE)
        cache.mkdir(parents=True, exist_ok=True)
        refuse_too_large(size, shutil.disk_usage(cache).free, cache, "HF_HOME names another place")
        progress.say(
            f"downloading {name} from {constants.ENDPOINT}: {counted(len(absent), 'file')}, {format_size(size)}"
        )
    if not progress.terminal:
        disable_progress_bars()
    paths = []
    for file in files:
        if file in absent and files[file].lfs is not None:
            fetch_large(name.repository, file, files[file].lfs.size, files[file].lfs.sha256, progress)
        paths.append(Path(hf_hub_download(name.repository, file)))
    return paths[0].parent if paths[0].name == "config.json" else paths[0]


def _cached(name: HubName) -> Path | None:
    """Return where an earlier, whole download lies; None if there was none."""
    try:
        folder = Path(snapshot_download(name.repository, local_files_only=True, allow_patterns=["config.json"]))
        files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
        first = chosen_files(name, files)[0]
        return folder / first if first != "config.json" else folder if _is_whole(folder) else None
    except (LocalEntryNotFoundError, CheckpointError, OSError, ValueError):
        return None  # it is not there, not readable, or not a name of the hub's


def _is_whole(folder: Path) -> bool:
    """Return whether all weights are there that a folder's index names, or some where it has no index."""
    try:
        index = json.loads((folder / _INDEX).read_bytes())
    except FileNotFoundError:
        return any(folder.glob("*.safetensors"))
    shards = index.get("weight_map") if isinstance(index, dict) else None
    return isinstance(shards, dict) and all(os.path.isfile(folder / str(shard)) for shard in shards.values())
