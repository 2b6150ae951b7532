"""Prompts for filling in the middle: what comes before a gap, what comes after it, and where the model is to begin.

A model that was trained for this has special tokens for the parts; how they are spelled tells in which order it wants
them.  So nothing is to be configured, and a tokenizer without such tokens is one of a model that cannot do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Vocabulary(Protocol):
    """Interface of `runtime.text.tokenizer.Tokenizer`, whose method this is."""

    def token_id(self, token: str) -> int | None:
        """Return the id of the token with exactly this spelling; None where there is none."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """Spelling of one line of models for infilling.

    Attributes:
        prefix: comes before the text before the gap.
        suffix: comes before the text after the gap.
        middle: comes last, where the model begins; None where it begins right after the text before the gap.
        suffix_first: the text after the gap comes before the other.
        file: comes before each file of a repository; None where the model knows no such token.
        repository: comes before the repository's name.
        ends: further tokens by which the model says that the gap is filled, where there are such tokens.
    """

    prefix: str
    suffix: str
    middle: str | None
    suffix_first: bool = False
    file: str | None = None
    repository: str | None = None
    ends: tuple[str, ...] = ()


# From the models' cards and papers.  What is more is asked first: StarCoder 2 has all that StarCoder has.
SPELLINGS = (
    Spelling(  # Qwen2.5-Coder, Qwen3-Coder
        "<|fim_prefix|>",
        "<|fim_suffix|>",
        "<|fim_middle|>",
        file="<|file_sep|>",
        repository="<|repo_name|>",
        ends=("<|endoftext|>", "<|fim_pad|>"),
    ),
    Spelling("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", file="<|file_separator|>"),  # CodeGemma
    Spelling(  # StarCoder 2
        "<fim_prefix>",
        "<fim_suffix>",
        "<fim_middle>",
        file="<file_sep>",
        repository="<repo_name>",
        ends=("<|endoftext|>", "<fim_pad>"),
    ),
    Spelling("<fim_prefix>", "<fim_suffix>", "<fim_middle>", ends=("<|endoftext|>", "<fim_pad>")),  # StarCoder, Granite
    Spelling("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # noqa: RUF001  (DeepSeek-Coder)
    Spelling("▁<PRE>", "▁<SUF>", "▁<MID>", ends=("▁<EOT>",)),  # Code Llama
    Spelling("[PREFIX]", "[SUFFIX]", None, suffix_first=True),  # Codestral
)


@dataclass(frozen=True, slots=True)
class InfillTokens:
    """The ids of a model's tokens for infilling, as `Spelling` names them; None for those that it does not have.

    Attributes:
        ends: no text goes on behind these: the tokens of all parts, and those that the model has of `Spelling.ends`.
    """

    prefix: int
    suffix: int
    middle: int | None
    suffix_first: bool = False
    file: int | None = None
    repository: int | None = None
    ends: tuple[int, ...] = ()

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> InfillTokens | None:
        """Find the tokens of a model; None where it has none, or not all that one spelling wants."""
        for spelling in SPELLINGS:
            names = (spelling.prefix, spelling.suffix, spelling.middle, spelling.file, spelling.repository)
            ids = {name: vocabulary.token_id(name) for name in names if name is not None}
            if None in ids.values():
                continue
            prefix, suffix, middle, file, repository = (None if name is None else ids[name] for name in names)
            assert prefix is not None
            assert suffix is not None
            others = (vocabulary.token_id(name) for name in spelling.ends)
            ends = tuple(found for found in (*ids.values(), *others) if found is not None)
            return cls(prefix, suffix, middle, spelling.suffix_first, file, repository, ends)
        return None

    def arrange(self, before: Iterable[int], after: Iterable[int]) -> list[int]:
        """Return the prompt for the gap between two texts, given as ids."""
        head, tail = [self.prefix, *before], [self.suffix, *after]
        end = [] if self.middle is None else [self.middle]
        return [*tail, *head, *end] if self.suffix_first else [*head, *tail, *end]

    def with_files(self, name: Sequence[int], files: Iterable[Sequence[int]], last: Sequence[int]) -> list[int] | None:
        """Return what comes before the gap's own prompt to show other files of its repository.

        Args:
            name: of the repository, as ids; it ends with a line's end, as the others.
            files: each file's name and text.
            last: the name of the file with the gap.

        Returns:
            None where the model knows no token that separates files.
        """
        if self.file is None:
            return None
        ids = [] if self.repository is None else [self.repository, *name]
        for file in [*files, last]:
            ids += [self.file, *file]
        return ids
