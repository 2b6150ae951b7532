"""Choice of the GGUF files that make a model: quantisations, split sets, and what is beside them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from runtime.common.log_text import printable
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SUFFIX = ".gguf"
PREFERRED = ("Q4_K_M", "Q8_0")  # what is taken of several where no tag says which; llama-server's choice, too

_SPLIT = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE | re.DOTALL)
# Parts of vision models, calibration data and draft models, as their converters name them: no models by themselves.
_COMPANION = re.compile(r"mmproj|imatrix|(?:^|/)(?:mtp|eagle3|dflash|dspark)-", re.IGNORECASE)
_LISTED = 20  # names in an error


def gguf_models(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the GGUF models among files: each one's first file, and all its files in order.

    Files that are no models, and sets of which the first part is missing, are left out.
    """
    singles: dict[str, tuple[str, ...]] = {}
    parts: defaultdict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    for name in sorted(names):
        if not name.lower().endswith(SUFFIX) or _COMPANION.search(name):
            continue
        if match := _SPLIT.fullmatch(name):
            parts[match["stem"], int(match["count"])][int(match["number"])] = name
        else:
            singles[name] = (name,)
    for found in parts.values():
        if 1 in found:
            singles[found[1]] = tuple(found[number] for number in sorted(found))
    return singles


def missing_parts(first: str, files: Iterable[str]) -> list[str]:
    """Return the parts of a split set that are not among its `files`; none for a single file."""
    match = _SPLIT.fullmatch(first)
    if match is None:
        return []
    present, count, shown = set(files), int(match["count"]), range(1, min(int(match["count"]), 9999) + 1)
    suffix = first[-len(SUFFIX) :]
    names = (f"{match['stem']}-{number:05}-of-{count:05}{suffix}" for number in shown)
    return [name for name in names if name not in present]


def first_part(name: str) -> str:
    """Return the first file of the split set that a file belongs to; the file itself if it belongs to none."""
    match = _SPLIT.fullmatch(name)
    return f"{match['stem']}-00001-of-{match['count']}{name[-len(SUFFIX) :]}" if match else name


def choose_gguf(where: str, names: Iterable[str], tag: str | None) -> tuple[str, ...]:
    """Return the files, in order, of the GGUF model that is meant.

    Args:
        where: the repository or folder, for errors.
        names: its files.
        tag: a quantisation or the name of a file, in any case; None for the preferred one, or the only one.

    Raises:
        CheckpointError: there is none, or more than one, or a part of it is missing; it lists what there is.
    """
    models = gguf_models(names)
    first = _named(models, tag) if tag is not None else _preferred(models)
    if first is None or len(first) > 1:
        raise CheckpointError(f"{where}: {_why(models, tag, several=first is not None)}")
    files = models[first[0]]
    if missing := missing_parts(files[0], files):
        raise CheckpointError(f"{where}: {files[0]} is the first of a split set, and {missing[0]} is missing")
    return files


def quantisation_of(name: str) -> str | None:
    """Return the quantisation that a file's name ends with, such as `Q4_K_M`; None where it names none."""
    stem = _SPLIT.sub(r"\g<stem>", name).removesuffix(SUFFIX)
    found = re.search(r"(?<![A-Za-z0-9])(?:I?Q\d\w*|BF16|F16|F32|MXFP4\w*)$", stem, re.IGNORECASE)
    return found and found[0].upper()


def _named(models: Mapping[str, object], tag: str) -> list[str] | None:
    """The models that a tag may mean; None for none."""
    wanted = tag.lower()
    if wanted.endswith(SUFFIX):
        exact = [name for name in models if name.lower() == wanted]
        return exact or [name for name in models if name.lower().rpartition("/")[2] == wanted] or None
    whole = re.compile(rf"(?<![a-z0-9]){re.escape(wanted)}(?![a-z0-9_])")
    return [name for name in models if whole.search(name.lower().rpartition("/")[2])] or None


def _preferred(models: Mapping[str, object]) -> list[str] | None:
    for tag in PREFERRED:
        if found := _named(models, tag):
            return found
    return list(models) or None


def _why(models: Mapping[str, object], tag: str | None, *, several: bool) -> str:
    if not models:
        return "holds no GGUF model"
    listed = printable(", ".join(list(models)[:_LISTED])) + (", ..." if len(models) > _LISTED else "")
    if several:
        return f"more than one GGUF file is {'a model' if tag is None else f'meant by {tag}'}; name one: {listed}"
    return f"holds no GGUF file for {tag}; there are: {listed}"
