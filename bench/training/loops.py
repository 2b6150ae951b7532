"""Loops of greedy text: the measure, and which of its tokens only repeat what stands before them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import mean, median
from typing import TYPE_CHECKING

from bench.corpus import ASSISTANT, END, USER
from bench.training.data import end_ids
from bench.training.teacher import chat_prompt, continue_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tokenizers import Tokenizer
    from transformers import Qwen3ForCausalLM

LOOP = 24
"""So many tokens in a row that are those of one period before are a loop, if they are a whole period."""

NEW_TOKENS = 256
"""Tokens that the model writes after each prompt."""

HELD_OUT_PROMPTS = 32
"""Prompts of held-out code, and as many of held-out chats."""

CODE_PROMPT = 64
"""Tokens of a prompt of held-out code."""

PLAIN_CODE = (
    "import os",
    "def ",
    "class ",
    "def main():",
    "for i in range(10):",
    'if __name__ == "__main__":',
    "# ",
    "print(",
    "from ",
    "import ",
    "x = 1",
    "try:",
    "def fibonacci(n):",
    "class Stack:",
    "@",
    "Hello",
)
PLAIN_REQUESTS = (
    "Hello!",
    "Hi, how are you?",
    "What can you do?",
    "Write a function that adds two numbers.",
    "Write hello world in Python.",
    "Write a class for a stack.",
    "Write a Python function that reverses a string.",
    "How do I read a file?",
    "What is a list?",
    "Tell me a story.",
    "Why is the sky blue?",
    "Count from one to ten.",
    "Write a long poem about the sea.",
    "Explain asyncio.",
    "What does os.path.join do?",
    "def fibonacci",
)


def runs(tokens: Sequence[int], period: int) -> Iterator[tuple[int, int]]:
    """Yield start and length of every longest run of tokens that are those of `period` places before."""
    length = 0
    for i in range(period, len(tokens)):
        if tokens[i] == tokens[i - period]:
            length += 1
        elif length:
            yield i - length, length
            length = 0
    if length:
        yield len(tokens) - length, length


def find_loop(tokens: Sequence[int]) -> int | None:
    """Return where a text first falls into a loop: the first token that its loop repeats.  None if it never does."""
    starts = [
        start
        for period in range(1, len(tokens) // 2 + 1)
        for start, length in runs(tokens, period)
        if length >= max(LOOP, period)
    ]
    return min(starts, default=None)


def repeated(tokens: Sequence[int], least: int) -> list[bool]:
    """Return for each token whether it is part of a passage of at least so many tokens that the text has before."""
    marks = [False] * len(tokens)
    for period in range(1, len(tokens) - least + 1):
        for start, length in runs(tokens, period):
            if length >= least:
                marks[start : start + length] = [True] * length
    return marks


def distinct(tokens: Sequence[int], size: int = 4) -> float:
    """Return the share of different n-grams among all of a text; 1.0 for a text that is too short to have any."""
    grams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


@dataclass(frozen=True)
class Continuation:
    """Text that the model wrote greedily after one prompt.

    Attributes:
        text: the continuation.
        tokens: how many it has.
        ended: whether it ended by itself.
        loop: the token from which it repeats itself; None if it never does.
        loop_line: the first line, from 1 on, that is part of the repetition.
        distinct: share of different 4-grams.
    """

    text: str
    tokens: int
    ended: bool
    loop: int | None
    loop_line: int | None
    distinct: float


def judge(tokens: list[int], tokenizer: Tokenizer) -> Continuation:
    """Look at one continuation, with its end token if it has one."""
    ended = bool(tokens) and tokens[-1] in end_ids(tokenizer)
    loop = find_loop(tokens)
    # With that token, which often is the line break before the line.
    line = None if loop is None else tokenizer.decode(tokens[: loop + 1]).count("\n") + 1
    return Continuation(tokenizer.decode(tokens), len(tokens), ended, loop, line, distinct(tokens))


def render_request(request: str) -> str:
    """Render a user's message as the chat template does, up to the reply."""
    return f"{USER}\n{request}{END}\n{ASSISTANT}\n"


def prompts_by_kind(held_out: list[list[int]], tokenizer: Tokenizer) -> dict[str, list[list[int]]]:
    """Return the prompts that the figures are of: held-out code and chats, and what a newcomer types."""
    chats = [prompt for document in held_out if (prompt := chat_prompt(document, tokenizer)) is not None]
    files = [document for document in held_out if chat_prompt(document, tokenizer) is None]
    stream = [token for document in files for token in document]
    stride = (len(stream) - CODE_PROMPT) // HELD_OUT_PROMPTS
    return {
        "held-out code": [stream[i * stride : i * stride + CODE_PROMPT] for i in range(HELD_OUT_PROMPTS)],
        "held-out chats": chats[:: len(chats) // HELD_OUT_PROMPTS][:HELD_OUT_PROMPTS],
        "plain code": [tokenizer.encode(text).ids for text in PLAIN_CODE],
        "plain chats": [tokenizer.encode(render_request(request)).ids for request in PLAIN_REQUESTS],
    }


def continuations(
    model: Qwen3ForCausalLM, held_out: list[list[int]], tokenizer: Tokenizer
) -> dict[str, list[Continuation]]:
    """Let the model continue every prompt greedily, and judge what it wrote."""
    ends = end_ids(tokenizer)
    found = {}
    for kind, prompts in prompts_by_kind(held_out, tokenizer).items():
        texts = continue_batch(model, prompts, ends, greedy=True, new=NEW_TOKENS)
        found[kind] = [judge(text[len(prompt) :], tokenizer) for prompt, text in zip(prompts, texts, strict=True)]
    return found


def row(kind: str, texts: list[Continuation]) -> str:
    """Return a kind's row of the table of `TABLE_HEAD`."""

    def share(count: int) -> str:
        return f"{count} ({count / len(texts):.0%})"

    lines = [text.loop_line for text in texts if text.loop_line is not None]
    early = sum(line <= 3 for line in lines)
    soon = sum(text.loop is not None and text.loop < 160 for text in texts)
    ended = sum(text.ended for text in texts)
    spread = f"{min(lines)}, {median(lines):.0f}, {max(lines)}" if lines else "-"
    different = mean(text.distinct for text in texts)
    return (
        f"| {kind} | {len(texts)} | {share(early)} | {share(soon)} | {share(len(lines))} | {spread} | {share(ended)} | "
        f"{different:.2f} |"
    )


TABLE_HEAD = (
    "| prompts | | loop from the first three lines on | loop within 160 tokens | loop within 256 | from line (first, "
    "median, last) | ended by themselves | different 4-grams |\n|---|---|---|---|---|---|---|---|"
)


def table(found: dict[str, list[Continuation]]) -> str:
    """Return the table of all kinds, and of all together."""
    everything = [text for texts in found.values() for text in texts]
    return "\n".join([TABLE_HEAD, *(row(kind, texts) for kind, texts in found.items()), row("all", everything)])
