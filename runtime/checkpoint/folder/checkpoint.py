"""A folder in the layout of Hugging Face checkpoints."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from runtime.checkpoint.config import ModelConfig, parse_config
from runtime.checkpoint.families.table import FAMILIES
from runtime.checkpoint.folder.experts import canonical_experts
from runtime.checkpoint.folder.mlx_models import as_published
from runtime.checkpoint.folder.quantized import read_quantized, refuse_parts
from runtime.checkpoint.folder.shards import folder_fingerprint, read_shards
from runtime.checkpoint.folder.tokenizer_file import read_tokenizer_file
from runtime.checkpoint.json_fields import read_object, read_optional_object
from runtime.checkpoint.unreadable import unreadable
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import tokenizers

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
        found: Mapping[str, StoredTensor] = read_shards(self.path)
        quantized = read_quantized(self._settings)
        tensors = found if quantized is None else quantized.assemble(found)
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
