"""A folder in the layout of Hugging Face checkpoints."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import tokenizers

from runtime.checkpoint.config import ModelConfig, parse_config
from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.folder.experts import canonical_experts
from runtime.checkpoint.folder.mlx_models import as_published
from runtime.checkpoint.folder.quantized import read_quantized, refuse_parts
from runtime.checkpoint.folder.shards import folder_fingerprint, read_shards
from runtime.checkpoint.json_fields import read_object, read_optional_object
from runtime.checkpoint.unreadable import unreadable
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runtime.checkpoint.json_fields import Settings
    from runtime.checkpoint.stored import StoredTensor

POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_cls_token": "cls",
}
"""Keys of sentence-transformers' `1_Pooling/config.json`, in llama.cpp's words."""

# Files of a vocabulary in a form that cede does not read.
OTHER_FORMS = ("tokenizer.model", "tekken.json", "vocab.json", "tiktoken.model")


class FolderCheckpoint:
    """A `Checkpoint` of `config.json`, safetensors files and `tokenizer.json`.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def config(self) -> ModelConfig:
        """The model of `config.json`, with the end tokens of `generation_config.json`."""
        read_quantized(self._settings)  # so that a form that is not read is refused before the weights are looked at
        return parse_config(self._settings, self.generation)

    @cached_property
    def generation(self) -> Settings:
        """`generation_config.json`, where there is one."""
        return read_optional_object(self.path / "generation_config.json") or {}

    def tensors(self) -> Mapping[str, StoredTensor]:
        """Return what the weight files' headers describe: packed matrices put together, fused ones taken apart."""
        found, quantized = read_shards(self.path), read_quantized(self._settings)
        tensors: Mapping[str, StoredTensor] = found if quantized is None else quantized.assemble(found)
        refuse_parts(tensors)
        tensors = as_published(tensors, self.config, self._settings)
        for rule in FAMILIES[self.config.architecture].layout:
            tensors = rule(tensors, self.config)
        return canonical_experts(tensors, self.config.architecture)

    def fingerprint(self) -> str:
        """Hash config.json and the weights, as `folder_fingerprint` does."""
        return folder_fingerprint(self.path)

    @property
    def has_tokenizer(self) -> bool:
        """Return whether there is a `tokenizer.json`."""
        return (self.path / "tokenizer.json").is_file()

    def tokenizer(self) -> tokenizers.Tokenizer:
        """Read `tokenizer.json`."""
        path = self.path / "tokenizer.json"
        if not self.has_tokenizer:
            raise CheckpointError(_what_is_missing(self.path))
        return read_tokenizer_file(path)

    def token_names(self) -> Mapping[str, str]:
        """Return each `*_token` of `tokenizer_config.json` that is set.

        A value is a string, or an object with the string.  Older folders have them in `special_tokens_map.json`.
        """
        entries = read_optional_object(self.path / "special_tokens_map.json") or {}
        entries |= self._tokenizer_config
        spelled = {
            name: entry.get("content") if isinstance(entry, dict) else entry
            for name, entry in entries.items()
            if name.endswith("_token")
        }
        return {name: text for name, text in spelled.items() if isinstance(text, str)}  # add_bos_token is a bool

    def chat_template(self) -> str | None:
        """Return `chat_template.jinja`, or the template of `tokenizer_config.json`."""
        path = self.path / "chat_template.jinja"
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return _default_template(self._tokenizer_config.get("chat_template"))
        except (OSError, ValueError) as error:
            raise unreadable(path, "text", error) from error

    def pooling(self) -> str | None:
        """Return what the settings of sentence-transformers say, where there are any."""
        settings = read_optional_object(self.path / "1_Pooling" / "config.json") or {}
        return next((word for key, word in POOLING.items() if settings.get(key) is True), None)

    def response_template(self) -> Settings | None:
        """Return that of `tokenizer_config.json`."""
        found = self._tokenizer_config.get("response_template")
        return found if isinstance(found, dict) else None

    @cached_property
    def _settings(self) -> Settings:
        return read_object(self.path / "config.json")

    @cached_property
    def _tokenizer_config(self) -> Settings:
        return read_optional_object(self.path / "tokenizer_config.json") or {}


def _default_template(entry: object) -> str | None:
    """Read `chat_template` of a configuration: absent, a template, or a list of named ones."""
    match entry:
        case None | str():
            return entry
        case list():
            for named in entry:
                match named:
                    case {"name": "default", "template": str(source)}:
                        return source
            raise CheckpointError("tokenizer_config.json has several chat templates, none of them named `default`")
    raise CheckpointError("chat_template in tokenizer_config.json is neither a string nor a list of named ones")


def _what_is_missing(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a folder"
    present = [name for name in OTHER_FORMS if (folder / name).is_file()]
    if not present:
        return f"{folder} has no tokenizer.json"
    return (
        f"{folder} has {' and '.join(present)} but no tokenizer.json, the only form that cede reads; "
        "transformers' AutoTokenizer.from_pretrained(...).save_pretrained(...) writes one"
    )


_TRIAL = "A text, 1234; größer\n東京"


def read_tokenizer_file(path: Path) -> tokenizers.Tokenizer:
    """Read a `tokenizer.json`, without the truncation and padding that a file saved after training may carry.

    The library, which is written in Rust, may not survive every content.  Where it *panics*, Python sees an exception
    that is no `Exception`, which would end the server; a panic within an error's message ends the process, and no
    handler can help.  So what was found to lead there is refused before the library sees it, a panic at loading is an
    error like others, and a text is encoded at once: files whose template names a token that is not there panic with
    the first one, whatever it is.

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
