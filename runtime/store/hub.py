"""Downloads from the Hugging Face hub, into the hub's own cache.

The hub's client does most of the work, and gives a file its name when it is whole; large files, of which the hub has
the SHA-256, go through `hub_files`.  Files are fetched one after the other, in the calling thread: so a signal's
exception ends the download at once.
"""

from __future__ import annotations

import json
import os
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import constants, hf_hub_download, model_info, snapshot_download, try_to_load_from_cache
from huggingface_hub.errors import LocalEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import disable_progress_bars

from runtime.common.units import counted, format_size
from runtime.errors import CheckpointError
from runtime.store.failures import refuse_too_large
from runtime.store.gguf_names import choose_gguf, gguf_models
from runtime.store.hub_failures import hub_failure
from runtime.store.hub_files import fetch_large

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runtime.store.names import HubName
    from runtime.store.progress import Progress

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
