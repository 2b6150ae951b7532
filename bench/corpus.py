"""A corpus: text of the running Python's standard library, and chat samples made of the same files.

Held-out files are chosen by a hash of their path inside the library, so the split is the same on every machine that
has the same Python. Licence of the text: Python Software Foundation License Version 2.
"""

from __future__ import annotations

import ast
import hashlib
import random
import sysconfig
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

END_OF_TEXT, SYSTEM, USER, ASSISTANT, END = SPECIALS = (
    "<|endoftext|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|end|>",
)

# Tests would be half of the library and teach little but assertEqual; `encodings` is mostly tables.
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "encodings"}
SKIPPED_PREFIXES = ("_sysconfigdata",)
HELD_OUT_PERCENT = 2
"""Share of files that are held out."""

REPLY_CHARS = (40, 1600)
"""The least and the most characters of a chat's reply."""

CHAT_SHARE = 0.24
"""Share of chats in all characters of a split."""

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You are a helpful assistant that writes Python.",
    "You write short, clear Python code.",
    "You are an expert Python programmer. Reply with code only.",
    "You are a coding assistant.",
)

CODE_REQUESTS = (
    "Write a Python {kind} named {name}.",
    "Write the {kind} `{name}`.",
    "Implement `{signature}`.",
    "Implement this:\n{signature}",
    "Please write {name} from the {module} module.",
    "Show me the source of {module}.{name}.",
    "Give me a {kind} called {name}.",
    "How would you implement {name} in Python?",
    "def {name}",
)
SUMMARY_REQUESTS = (
    "Write a {kind} for this: {summary}",
    "{summary}",
    "Write Python code: {summary}",
    "Write a {kind} `{name}`. {summary}",
    "I need a {kind} that does the following. {summary}",
)
DOC_REQUESTS = (
    "What does {name} do?",
    "Explain {module}.{name}.",
    "Describe the {kind} {name} of the {module} module.",
    "What is {name} for?",
)


@dataclass(frozen=True)
class Split:
    """The training or the held-out part of the corpus: whole files, and chats in the form of the chat template."""

    files: list[str]
    chats: list[str]


@dataclass(frozen=True)
class Definition:
    """A function or a class of the library, as a chat sample needs it."""

    kind: str
    name: str
    module: str
    signature: str
    source: str
    docstring: str

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return self.docstring.strip().partition("\n")[0].strip()


def render_chat(messages: list[tuple[str, str]]) -> str:
    """Render pairs of role marker and content as the chat template does; each message ends with ``<|end|>``."""
    return "\n".join(f"{marker}\n{content}{END}" for marker, content in messages) + "\n"


def stdlib_files() -> list[tuple[str, str]]:
    """Return the path inside the library and the text of every source file that is used, sorted by path."""
    root = Path(sysconfig.get_path("stdlib"))
    found = []
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if SKIPPED_FOLDERS & set(inside.parts) or inside.name.startswith(SKIPPED_PREFIXES):
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a few old files declare Latin-1; not worth the code
        if text.strip():
            found.append((inside.as_posix(), text.replace("\r\n", "\n")))
    return found


def is_held_out(inside: str) -> bool:
    """Return whether the file with this path inside the library is held out."""
    return int(hashlib.sha256(inside.encode()).hexdigest(), 16) % 100 < HELD_OUT_PERCENT


def definitions(inside: str, text: str) -> Iterator[Definition]:
    """Yield the functions, methods and classes of a file whose source has the length of a chat's reply."""
    module = inside.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError:  # lib2to3 keeps some Python 2 files
        return
    lines = text.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        body = lines[node.lineno - 1 : node.end_lineno]
        indent = node.col_offset
        source = "\n".join(line[indent:] if line[:indent].isspace() or not indent else line for line in body)
        if REPLY_CHARS[0] <= len(source) <= REPLY_CHARS[1]:
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            head = body[0].strip()
            yield Definition(kind, node.name, module, head, source, ast.get_docstring(node) or "")


def chat_of(definition: Definition, rng: random.Random) -> str:
    """Return a chat of one request and its reply, in some cases with a system message."""
    requests: tuple[str, ...] = CODE_REQUESTS
    reply = definition.source
    if len(definition.docstring) > 60 and rng.random() < 0.25:
        requests, reply = DOC_REQUESTS, definition.docstring.strip()
    elif len(definition.summary) > 12 and rng.random() < 0.6:
        requests = SUMMARY_REQUESTS
    request = rng.choice(requests).format(
        kind=definition.kind,
        name=definition.name,
        module=definition.module,
        signature=definition.signature,
        summary=definition.summary,
    )
    messages = [(USER, request), (ASSISTANT, reply)]
    if rng.random() < 0.4:
        messages.insert(0, (SYSTEM, rng.choice(SYSTEM_PROMPTS)))
    return render_chat(messages)


def chats_of(files: list[tuple[str, str]], budget: int, rng: random.Random) -> list[str]:
    """Return chats about random definitions, up to ``budget`` characters; one in eight has a second turn."""
    pool = [found for inside, text in files for found in definitions(inside, text)]
    rng.shuffle(pool)
    chats: list[str] = []
    used = 0
    for definition in pool:
        if used >= budget:
            break
        chat = chat_of(definition, rng)
        used += len(chat)
        if chats and not chat.startswith(SYSTEM) and rng.random() < 0.12:
            chats[-1] += chat
        else:
            chats.append(chat)
    return chats


def held_out_files() -> list[str]:
    """Return the text of the files that are held out, without the chats about them, which take seconds to make."""
    return [text for inside, text in stdlib_files() if is_held_out(inside)]


def load_corpus(seed: int) -> tuple[Split, Split]:
    """Return the training and the held-out part."""
    everything = stdlib_files()
    splits = []
    for held_out in (False, True):
        files = [(inside, text) for inside, text in everything if is_held_out(inside) == held_out]
        size = sum(len(text) for _, text in files)
        chats = chats_of(files, int(size * CHAT_SHARE / (1 - CHAT_SHARE)), random.Random(seed))
        splits.append(Split([text for _, text in files], chats))
    return splits[0], splits[1]
