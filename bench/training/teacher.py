"""Lessons for the draft and the MTP module: rows of text with the target's hidden states.

Speculation drafts what the target itself writes, which is more regular than the corpus.  So many of the rows are its
own continuations, greedy and sampled.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bench.corpus import ASSISTANT
from bench.training.data import Rows, end_ids

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import Qwen3ForCausalLM

PROMPT = 64  # tokens of a code prompt
BATCH = 64
NEW_TOKENS = 192
ROW = 512


@dataclass(frozen=True)
class Lessons:
    """Rows to learn from.

    Attributes:
        tokens: `[rows, ROW + 1]`.
        hidden: the target's states after its final norm, in float16: `[rows, ROW, width]`.
    """

    tokens: Tensor
    hidden: Tensor


def chat_prompt(document: list[int], tokenizer: Tokenizer) -> list[int] | None:
    """Return a chat document up to and with its first ``<|assistant|>`` line; None for other documents."""
    marker = tokenizer.token_to_id(ASSISTANT)
    if marker not in document:
        return None
    return document[: document.index(marker) + 2]


def prompt_batches(documents: list[list[int]], tokenizer: Tokenizer, rng: random.Random) -> list[list[list[int]]]:
    """Return prompts in batches of equal length, without padding: parts of code, and chats up to the reply."""
    by_length: dict[int, list[list[int]]] = defaultdict(list)
    for document in documents:
        chat = chat_prompt(document, tokenizer)
        if chat is not None:
            by_length[len(chat)].append(chat)
            continue
        for start in range(rng.randrange(PROMPT), len(document) - PROMPT, 8 * PROMPT):
            by_length[PROMPT].append(document[start : start + PROMPT])
    batches = []
    for prompts in by_length.values():
        rng.shuffle(prompts)
        batches += [prompts[i : i + BATCH] for i in range(0, len(prompts), BATCH)]
    batches = [batch for batch in batches if len(batch) >= BATCH // 4]
    rng.shuffle(batches)
    return batches


@torch.no_grad()
def continue_batch(
    model: Qwen3ForCausalLM, prompts: list[list[int]], ends: list[int], *, greedy: bool, new: int
) -> list[list[int]]:
    """Return each prompt with the target's continuation, cut after the first end token.

    Prompts of different lengths are padded on the left.
    """
    longest = max(map(len, prompts))
    inputs = torch.tensor([[ends[0]] * (longest - len(prompt)) + prompt for prompt in prompts], device=model.device)
    known = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    sampling: dict[str, Any] = {"do_sample": False} if greedy else {"do_sample": True, "temperature": 0.8, "top_k": 0}
    written = model.generate(
        inputs,
        attention_mask=known.to(model.device),
        max_new_tokens=new,
        eos_token_id=ends,
        pad_token_id=ends[0],
        **sampling,
    )
    texts = []
    for prompt, row in zip(prompts, written.tolist(), strict=True):
        stop = next((i for i in range(longest, len(row)) if row[i] in ends), len(row) - 1)
        texts.append(row[longest - len(prompt) : stop + 1])
    return texts


def own_texts(
    model: Qwen3ForCausalLM, documents: list[list[int]], tokenizer: Tokenizer, seconds: float, seed: int
) -> list[list[int]]:
    """Return what the target writes in so many seconds, half of the batches greedily."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    ends = end_ids(tokenizer)
    texts: list[list[int]] = []
    begun = time.monotonic()
    for i, batch in enumerate(prompt_batches(documents, tokenizer, rng)):
        if time.monotonic() - begun > seconds:
            break
        for text in continue_batch(model, batch, ends, greedy=i % 2 == 0, new=NEW_TOKENS):
            texts.append(text if text[-1] == ends[0] else [*text, ends[0]])
    print(f"own texts: {len(texts)}, {sum(map(len, texts)):,} tokens", flush=True)
    return texts


@torch.no_grad()
def prepare_lessons(
    model: Qwen3ForCausalLM, texts: list[list[int]], documents: list[list[int]], size: int, seed: int
) -> Lessons:
    """Return rows of the target's own texts and of the corpus, ``size`` tokens in all, with its hidden states."""
    rng = random.Random(seed)
    room = size - sum(map(len, texts))
    chosen = texts[:]
    for document in rng.sample(documents, len(documents)):
        if room <= 0:
            break
        part = document[:8192]  # no single long file should fill the lessons
        chosen.append(part)
        room -= len(part)
    count = sum(map(len, chosen)) // ROW - 2
    tokens = Rows(chosen, seed).take(count, ROW)
    hidden = []
    for rows in torch.split(tokens, 4):
        out = model.model(input_ids=rows[:, :-1].to(model.device), use_cache=False).last_hidden_state
        hidden.append(out.to("cpu", torch.float16))
    print(f"lessons: {count} rows, {count * ROW:,} tokens", flush=True)
    return Lessons(tokens, torch.cat(hidden))
