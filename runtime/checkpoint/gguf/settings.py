"""The metadata of a GGUF file as the settings of Hugging Face's config.json and generation_config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gguf.constants import Keys

from runtime.checkpoint.gguf import rope
from runtime.checkpoint.gguf.architecture import COMMON_KEYS, MODULES, Architecture
from runtime.checkpoint.gguf.architectures import ARCHITECTURES
from runtime.checkpoint.gguf.tensors import PLAIN_TYPES
from runtime.checkpoint.gguf.vocabulary import Vocabulary, end_token_ids
from runtime.checkpoint.unreadable import not_among
from runtime.errors import CheckpointError

if TYPE_CHECKING:
    from runtime.checkpoint.gguf.file import GgufFile
    from runtime.checkpoint.gguf.metadata import Metadata

_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_PATTERN = "attention.sliding_window_pattern"
_LOCAL_THETA = "rope.freq_base_swa"  # of layers with a window
_POOLING = "pooling_type"
_POOLINGS = ("none", "mean", "cls", "last", "rank")  # by their number, as llama.cpp has them
_READ_HERE = frozenset({"vocab_size", _POOLING, "attention.value_length", _PATTERN, _LOCAL_THETA}) | rope.KEYS

_SAMPLING: dict[str, tuple[str, type[Any]]] = {
    "temperature": ("general.sampling.temp", float),
    "top_k": ("general.sampling.top_k", int),
    "top_p": ("general.sampling.top_p", float),
    "min_p": ("general.sampling.min_p", float),
    "repetition_penalty": ("general.sampling.penalty_repeat", float),
}


def find_architecture(file: GgufFile) -> Architecture:
    """Return the entry of the table that is the file's.

    Raises:
        CheckpointError: it is not in the table, or the file holds no whole model.
    """
    kind = file.metadata.find("general.type", str)
    if kind not in (None, "model"):
        raise file.metadata.invalid("general.type", f"is {kind!r}; the file holds a part that belongs to a model")
    name = file.architecture
    if name not in ARCHITECTURES:
        raise file.metadata.invalid("general.architecture", f"{name!r} {not_among(name, ARCHITECTURES)}")
    architecture = ARCHITECTURES[name]
    for key, variant in architecture.variants.items():
        if file.metadata.find(f"{name}.{key}", int) not in (None, 0):
            return variant
    return architecture


def read_settings(file: GgufFile) -> dict[str, Any]:
    """Return what config.json would say of the model.

    Raises:
        CheckpointError: a key is missing, of another type, or not one that is known.
    """
    architecture, metadata, prefix = find_architecture(file), file.metadata, f"{file.architecture}."
    keys, more = {**COMMON_KEYS, **architecture.keys}, architecture.more_keys
    _refuse_unknown(metadata, prefix, _READ_HERE.union(more, keys, architecture.fixed, architecture.rope_keys))
    for suffix, wanted in architecture.fixed.items():
        if metadata.find(prefix + suffix, type(wanted)) not in (None, wanted):
            raise metadata.invalid(prefix + suffix, f"is not supported, only {wanted!r} is")
    settings: dict[str, Any] = {"architectures": [architecture.name], "model_type": architecture.model_type}
    settings |= architecture.settings
    for suffix, key in keys.items():
        if suffix in more:
            continue
        value = (metadata.require if key.required else metadata.find)(prefix + suffix, key.kind)
        if value is not None:
            settings[key.setting] = value
    settings["num_hidden_layers"] -= settings.get(MODULES, 0)
    settings |= _windows(metadata, prefix, settings)
    settings |= architecture.more_settings(file, settings)
    if not settings.keys() & {"kv_lora_rank", "rope_parameters"}:  # these have sizes and a rope of their own
        settings |= _attention(file, architecture, settings)
    return settings | _of_tensors(file, architecture) | _of_tokens(metadata)


def read_generation(file: GgufFile) -> dict[str, Any]:
    """Return what generation_config.json would say: the sampling parameters that the model's publisher recommends.

    Raises:
        CheckpointError: one is of another type.
    """
    found = {name: file.metadata.find(key, kind) for name, (key, kind) in _SAMPLING.items()}
    return {name: value for name, value in found.items() if value is not None}


def read_pooling(file: GgufFile) -> str | None:
    """Return how the model was trained to be pooled; None where the metadata do not say.

    Raises:
        CheckpointError: it is not a number.
    """
    number = file.metadata.find(f"{file.architecture}.{_POOLING}", int)
    return None if number is None or not 0 <= number < len(_POOLINGS) else _POOLINGS[number]


def _refuse_unknown(metadata: Metadata, prefix: str, known: frozenset[str]) -> None:
    for name in metadata:
        if name.startswith(prefix) and name.removeprefix(prefix) not in known:
            raise metadata.invalid(name, "is not a key that cede knows, and it may change what is computed")


def _attention(file: GgufFile, architecture: Architecture, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of attention that are not a key's value: scale, rotation."""
    metadata, prefix = file.metadata, f"{file.architecture}."
    head_dim = _head_dim(file, settings)
    found: dict[str, Any] = {}
    if architecture.narrow_layers is not None:
        narrow = settings["num_hidden_layers"] == architecture.narrow_layers
        size = settings["hidden_size"] // settings["num_attention_heads"] if narrow else head_dim
        found["query_pre_attn_scalar"] = size
    found |= _rope(file, architecture, head_dim)
    known = _LOCAL_THETA in architecture.keys
    if not known and metadata.find(prefix + _LOCAL_THETA, float) not in (None, found["rope_theta"]):
        raise metadata.invalid(
            prefix + _LOCAL_THETA, "differs from rope.freq_base, which is not supported in this architecture"
        )
    return found


def _head_dim(file: GgufFile, settings: dict[str, Any]) -> int:
    """Return the numbers of a key's head; those of a value must be as many."""
    metadata, prefix = file.metadata, f"{file.architecture}.attention."
    hidden_size, heads = settings["hidden_size"], settings["num_attention_heads"]
    if not 0 < heads <= hidden_size:
        raise metadata.invalid(f"{prefix}head_count", f"is {heads}, of {hidden_size} numbers of a hidden state")
    head_dim: int = settings.get("head_dim") or hidden_size // heads
    if metadata.find(f"{prefix}value_length", int) not in (None, head_dim):
        raise metadata.invalid(f"{prefix}value_length", f"is not the {head_dim} of {prefix}key_length, as it has to be")
    return head_dim


def _windows(metadata: Metadata, prefix: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return which layers have a window: a key has it for each layer, or how often one has none, or it is absent."""
    key = f"{prefix}{_PATTERN}"
    if "sliding_window" not in settings:
        if key in metadata:
            raise metadata.invalid(key, "is not supported without a window")
        return {}
    found: dict[str, Any] = {}
    if settings["sliding_window"] == 0:  # as absent
        found["sliding_window"] = None
    if isinstance(metadata.get(key), list):
        slides = metadata.require_list(key, bool)
        found["layer_types"] = ["sliding_attention" if slide else "full_attention" for slide in slides]
    elif key in metadata:
        found["sliding_window_pattern"] = metadata.require(key, int)
    return found


def _rope(file: GgufFile, architecture: Architecture, head_dim: int) -> dict[str, Any]:
    """Return what the keys, and the architecture, say of rotation."""
    settings = rope.rope_settings(file, head_dim)
    scaling = settings["rope_scaling"]
    if scaling["rope_type"] == "yarn":
        scaling |= architecture.rope
    for suffix, key in architecture.rope_keys.items():
        if value := file.metadata.find(f"{file.architecture}.{suffix}", key.kind):
            scaling[key.setting] = value
    return settings


def _of_tensors(file: GgufFile, architecture: Architecture) -> dict[str, Any]:
    """Return the settings that tensors tell: sizes, biases, the dtype."""
    if _EMBEDDING not in file.tensors:
        raise CheckpointError(f"{file.metadata.file}: {_EMBEDDING} is missing")
    settings: dict[str, Any] = {
        "vocab_size": file.tensors[_EMBEDDING].shape[0],
        "tie_word_embeddings": _HEAD not in file.tensors,
    }
    told = {"attn_q_norm.weight": architecture.qk_norm, "attn_q.bias": architecture.attention_bias}
    for tensor, setting in {**told, "ffn_up.bias": architecture.mlp_bias, **architecture.told}.items():
        if setting is not None:
            settings[setting] = any(name.endswith(f".{tensor}") for name in file.tensors)
    largest = max(file.tensors.values(), key=lambda entry: entry.num_bytes)
    if largest.kind in PLAIN_TYPES:
        settings["dtype"] = PLAIN_TYPES[largest.kind]
    return settings


def _of_tokens(metadata: Metadata) -> dict[str, Any]:
    """Return the tokens that begin a text, and that end one."""
    if Keys.Tokenizer.LIST not in metadata:  # a draft model may come without a tokenizer
        return {}
    settings: dict[str, Any] = {"eos_token_id": list(end_token_ids(metadata))}
    bos = Vocabulary.read(metadata).special_id(Keys.Tokenizer.BOS_ID)
    return settings if bos is None else settings | {"bos_token_id": bos}
