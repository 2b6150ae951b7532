"""Figures for the model card, taken from the exported (bfloat16-rounded) files as a reader would load them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional
from transformers import Qwen3ForCausalLM

from bench.corpus import load_corpus
from bench.training.data import encode, end_ids
from bench.training.models import MtpModule
from bench.training.teacher import chat_prompt, continue_batch
from bench.training.train import held_out_loss

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tokenizers import Tokenizer

    Proposer = Callable[[list[int], int], list[int]]

BLOCK = 4
"""Drafted tokens in a block."""

PROMPTS = 16
"""Prompts of code, and as many of chats."""

CODE_PROMPT = 96
"""Tokens of a prompt of code."""

CONTINUATION = 96
"""Tokens that the target writes after each prompt."""


@dataclass(frozen=True)
class Acceptance:
    """Greedy drafts against greedy text, in blocks of ``BLOCK`` tokens, each compared up to its first miss."""

    drafted: int
    accepted: int
    blocks: int
    first_right: int

    @property
    def share(self) -> float:
        """Share of drafted tokens that were accepted."""
        return self.accepted / self.drafted

    @property
    def first_share(self) -> float:
        """Share of blocks whose first token was right."""
        return self.first_right / self.blocks


def load_exported(folder: Path) -> Qwen3ForCausalLM:
    """Load an exported model in float32, for evaluation."""
    model = Qwen3ForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    return model.eval()


def load_mtp(target: Qwen3ForCausalLM, folder: Path) -> MtpModule:
    """Load the exported MTP module, for evaluation."""
    module = MtpModule(target.config)
    module.load_checkpoint(load_file(folder / "mtp.safetensors"))
    return module.eval()


@torch.no_grad()
def draft_proposer(draft: Qwen3ForCausalLM) -> Proposer:
    """Return a function that drafts greedily with the draft model."""

    def propose(prefix: list[int], count: int) -> list[int]:
        tokens = prefix[:]
        for _ in range(count):
            logits = draft(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
            tokens.append(int(logits.argmax()))
        return tokens[len(prefix) :]

    return propose


def mtp_proposer(target: Qwen3ForCausalLM, module: MtpModule) -> Proposer:
    """Return a function that drafts greedily with the MTP module.

    Rows of the known prefix have the target's hidden states; later rows have the module's own output.
    """
    head: Tensor = target.lm_head.weight

    @torch.no_grad()
    def propose(prefix: list[int], count: int) -> list[int]:
        tokens = prefix[:]
        hidden = target.model(input_ids=torch.tensor([prefix[:-1]]), use_cache=False).last_hidden_state
        for _ in range(count):
            embedded = functional.embedding(torch.tensor([tokens[1:]]), head)
            out = module(hidden, embedded)[:, -1:]
            tokens.append(int(functional.linear(out[0, -1], head).argmax()))
            hidden = torch.cat([hidden, out], dim=1)
        return tokens[len(prefix) :]

    return propose


def held_out_texts(
    target: Qwen3ForCausalLM, documents: list[list[int]], tokenizer: Tokenizer
) -> list[tuple[int, list[int]]]:
    """Return prompts of held-out code and chats, half each: their length, and them with the target's continuation."""
    ends = end_ids(tokenizer)
    chats = [prompt for document in documents if (prompt := chat_prompt(document, tokenizer)) is not None]
    files = [document for document in documents if chat_prompt(document, tokenizer) is None]
    stream = [token for document in files for token in document]
    stride = (len(stream) - CODE_PROMPT) // PROMPTS
    prompts = [stream[i * stride : i * stride + CODE_PROMPT] for i in range(PROMPTS)] + chats[:PROMPTS]
    texts = []
    for prompt in prompts:
        text = continue_batch(target, [prompt], ends, greedy=True, new=CONTINUATION)[0]
        texts.append((len(prompt), text))
    return texts


@torch.no_grad()
def acceptance(propose: Proposer, texts: list[tuple[int, list[int]]]) -> Acceptance:
    """Run a speculative loop over known greedy texts: draft, accept the right tokens, add the target's own."""
    drafted = accepted = blocks = first_right = 0
    for start, text in texts:
        at = start
        while at < len(text):
            proposal = propose(text[:at], min(BLOCK, len(text) - at))
            right = 0
            while right < len(proposal) and proposal[right] == text[at + right]:
                right += 1
            drafted, accepted, blocks = drafted + len(proposal), accepted + right, blocks + 1
            first_right += right > 0
            at += right + 1
    return Acceptance(drafted, accepted, blocks, first_right)


@torch.no_grad()
def agreement(propose: Proposer, texts: list[tuple[int, list[int]]]) -> float:
    """Return the share of positions of greedy texts at which the first drafted token is the target's."""
    right = total = 0
    for start, text in texts:
        for at in range(start, len(text), 4):  # every fourth position is plenty
            right += propose(text[:at], 1)[0] == text[at]
            total += 1
    return right / total


def losses(target: Qwen3ForCausalLM, tokenizer: Tokenizer, seed: int) -> dict[str, float]:
    """Return held-out nats per token and bits per byte in rows of 512 tokens, and nats at the full context."""
    _, held_out = load_corpus(seed)
    documents = encode(tokenizer, held_out)
    tokens = sum(map(len, documents))
    size = sum(len(text.encode()) for text in [*held_out.files, *held_out.chats])
    nats = held_out_loss(target, documents)
    return {
        "tokens": tokens,
        "bytes": size,
        "nats_per_token": nats,
        "bits_per_byte": nats * tokens / size / math.log(2),
        "nats_per_token_4096": held_out_loss(target, documents, length=4096),
    }
