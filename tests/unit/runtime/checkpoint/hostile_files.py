"""Reads mutated files in a process of its own, whose memory and time are bounded.

    python -m tests.unit.runtime.checkpoint.hostile_files FOLDER

prints a JSON object: for each kind of file how many were refused and read, and what else happened.  It is for
`test_open_hostile_files.py`, and runs in a process so that a crash or an allocation without bound is seen.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from gguf import GGMLQuantizationType, TokenType

from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.nn.weights import load_weights
from runtime.text.tokenizer import Tokenizer
from tests.models.checkpoints import FAMILIES
from tests.models.gguf.edited import edited
from tests.models.gguf.files import write_gguf
from tests.models.mutations import changed_bytes, changed_json
from tests.models.small_tokenizers import byte_level, llama2_style

FILES = {"gguf": 120, "safetensors": 80, "tokenizer": 100}
MEMORY = 1 << 30  # bytes beside what is there at first
SECONDS = 120  # of the processor

# What a file was changed to, and what reads it.
Case = tuple[Callable[[random.Random], bytes], Path, Callable[[Path], object]]


def read_model(path: Path) -> None:
    """Read all that there is but the tokenizer."""
    checkpoint = open_checkpoint(path)
    load_weights(checkpoint, device="cpu", dtype=torch.float32)
    checkpoint.fingerprint()
    _ = checkpoint.generation


def read_tokenizer(path: Path) -> None:
    """Read the tokenizer, and work with it."""
    checkpoint = open_checkpoint(path)
    tokenizer = Tokenizer.load(checkpoint)
    tokenizer.decode(tokenizer.encode("Hello, wörld <|im_start|> 東京\n\n  👍🏽"))
    for token_id in range(0, tokenizer.vocab_size, 7):
        tokenizer.token_bytes(token_id)
    checkpoint.chat_template()
    checkpoint.token_names()


def read_all(path: Path) -> None:
    """Read the model and its tokenizer."""
    read_model(path)
    read_tokenizer(path)


def cases(folder: Path) -> dict[str, list[Case]]:
    """Write the good files; return by kind how each is changed, where that is written, and what reads it."""
    FAMILIES["llama3-rope"](folder)
    plain = write_gguf(folder, folder / "m.gguf", matrices=GGMLQuantizationType.Q8_0, vocabulary=False)
    gguf = edited(plain, _vocabulary())
    read_all(gguf)
    whole, weights = gguf.read_bytes(), (folder / "model.safetensors").read_bytes()
    header_end, before_weights = whole.rindex(b"blk.") + 100, 8 + int.from_bytes(weights[:8], "little")
    sizes = whole.index(b"tokenizer.ggml.tokens")

    def changed_header(generator: random.Random) -> bytes:
        header = changed_json(weights[8:before_weights].decode(), generator).encode()
        return len(header).to_bytes(8, "little") + header + weights[before_weights:]

    def changed_text(text: str) -> Callable[[random.Random], bytes]:
        return lambda generator: changed_json(text, generator).encode()

    texts = [llama2_style().to_str(), byte_level().to_str(), (folder / "tokenizer.json").read_text(encoding="utf-8")]
    return {
        "gguf": [
            (lambda generator: changed_bytes(whole, generator, header_end), gguf, read_all),
            (lambda generator: changed_bytes(whole, generator, sizes), gguf, read_all),
        ],
        "safetensors": [
            (lambda generator: changed_bytes(weights, generator, before_weights), folder, read_model),
            (changed_header, folder, read_model),
        ],
        "tokenizer": [(changed_text(text), folder, read_tokenizer) for text in texts],
    }


def _vocabulary() -> dict[str, Any]:
    """Return the keys that describe a tokenizer in a GGUF file."""
    backend = byte_level()
    ids = backend.get_vocab(with_added_tokens=True)
    tokens = sorted(ids, key=lambda token: ids[token])
    special = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    keys = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": tokens,
        "token_type": [int(TokenType.CONTROL if token in special else TokenType.NORMAL) for token in tokens],
        "merges": [" ".join(pair) for pair in json.loads(backend.to_str())["model"]["merges"]],
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def outcome(read: Callable[[Path], object], path: Path) -> str:
    """Return what became of reading a file."""
    try:
        read(path)
    except CheckpointError:
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def main(folder: Path) -> dict[str, dict[str, int]]:
    """Read all files; returns how often there was which outcome."""
    torch.set_num_threads(1)
    prepared = cases(folder)
    names = {"gguf": "m.gguf", "safetensors": "model.safetensors", "tokenizer": "tokenizer.json"}
    _bound()
    outcomes: dict[str, dict[str, int]] = {}
    for kind, count in FILES.items():
        good = (folder / names[kind]).read_bytes()
        found: Counter[str] = Counter()
        for seed in range(count):
            change, path, read = prepared[kind][seed % len(prepared[kind])]
            (folder / names[kind]).write_bytes(change(random.Random(seed)))
            result = outcome(read, path)
            found[result if result in ("refused", "read") else f"seed {seed}: {result}"] += 1
        (folder / names[kind]).write_bytes(good)
        outcomes[kind] = dict(found)
    return outcomes


def _bound() -> None:
    """Bound this process's time, and its memory where the system says how much there is."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    pages = Path("/proc/self/statm")
    if pages.exists():
        limit = int(pages.read_text().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
