"""A `tokenizer.json`, of which the library may not survive every content.

The library is written in Rust.  Where that *panics*, Python sees an exception that is no `Exception`, which would end
the server; a panic within an error's message ends the process, and no handler can help.  So what was found to lead
there is refused before the library sees it, a panic at loading is an error like others, and a text is encoded at once:
files whose template names a token that is not there panic with the first one, whatever it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import tokenizers

from runtime.checkpoint.unreadable import unreadable
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

_TRIAL = "A text, 1234; größer\n東京"


def read_tokenizer_file(path: Path) -> tokenizers.Tokenizer:
    """Read a `tokenizer.json`, without the truncation and padding that a file saved after training may carry.

    Raises:
        CheckpointError: it cannot be read, or the library cannot work with it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        _check(path, json.loads(text))
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, "JSON", error) from error
    try:
        backend = tokenizers.Tokenizer.from_str(text)
        backend.no_truncation()
        backend.no_padding()
        encodings = backend.encode_batch_fast([_TRIAL], add_special_tokens=True)
        backend.decode_batch([encoding.ids for encoding in encodings])
    except Exception as error:  # the library raises nothing more precise
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of a module that cannot be imported
            raise
        raise CheckpointError(f"{path}: the tokenizers library fails with it: {error}") from error
    return backend


def _check(path: Path, description: Any) -> None:  # noqa: ANN401
    """Refuse what the library has been seen to end the process with, or to fail with at some texts only."""
    model = description.get("model") if isinstance(description, dict) else None
    if not isinstance(model, dict):
        raise CheckpointError(f"{path}: is not a tokenizer's description: it has no model")
    # Each token of a merge but the first loses as many bytes as this has, be they half of a character.
    if model.get("continuing_subword_prefix") and model.get("type", "BPE") == "BPE":
        raise CheckpointError(f"{path}: continuing_subword_prefix is not supported in BPE")
    unknown, vocabulary = model.get("unk_token"), model.get("vocab")
    if isinstance(unknown, str) and isinstance(vocabulary, dict) and unknown not in vocabulary:
        raise CheckpointError(f"{path}: unk_token {unknown!r:.60} is not in the vocabulary")
