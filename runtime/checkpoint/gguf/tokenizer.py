"""A GGUF file's tokenizer, rebuilt as one of the `tokenizers` library.

Three kinds are known.  *Byte-level BPE* has a list of merges, and a name for how text is cut before
(`pretokenizers.py`).  *SentencePiece BPE* has a score for each token instead: of all neighbours in a text whose join is
a token, those whose join has the highest score are joined first.  That is BPE whose merges are all pairs that make up a
token, ordered by its score, which is how transformers converts such vocabularies, too (`convert_slow_tokenizer.py`).
*Gemma 4's* is the second with the first one's list of merges.

Everything else is refused by name, for wrong tokens would go unnoticed.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING

import tokenizers
from gguf.constants import Keys, TokenType
from tokenizers import decoders, models, normalizers, processors

from runtime.checkpoint.gguf.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from runtime.checkpoint.gguf.vocabulary import BYTE_LEVEL, FOUND_IN_TEXT, GEMMA4, SENTENCE_PIECE, Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runtime.checkpoint.gguf.metadata import Metadata

_KINDS = (BYTE_LEVEL, SENTENCE_PIECE, GEMMA4)
_SPACE_MARK = "▁"  # SentencePiece's spelling of a space
_BYTE_TOKENS = frozenset(f"<0x{byte:02X}>" for byte in range(256))
_MAX_PIECE = 256  # characters; SentencePiece's trainer makes up to 16, and the cuts to try grow with them

# Phi-3's tokenizer.json strips the spaces after its special tokens, but after these.  GGUF has no such flag.
_STRIPPING_ARCHITECTURE = "phi3"
_NOT_STRIPPING = ("<unk>", "<s>", "<|endoftext|>")


def rebuild_tokenizer(metadata: Metadata) -> tokenizers.Tokenizer:
    """Build the tokenizer that the metadata describe.

    Raises:
        CheckpointError: it is malformed, or would not cut text as the original does; the message names the key.
    """
    vocabulary = Vocabulary.read(metadata)
    if vocabulary.model == BYTE_LEVEL:
        backend, adds_bos = _byte_level(vocabulary)
    elif vocabulary.model in (SENTENCE_PIECE, GEMMA4):
        backend, adds_bos = _sentence_piece(vocabulary), True
    else:
        raise metadata.invalid(
            Keys.Tokenizer.MODEL, f"is {vocabulary.model!r:.60}; cede knows {', '.join(map(repr, _KINDS))}"
        )
    _refuse(metadata, Keys.Tokenizer.ADD_SEP)
    _add_found_tokens(backend, vocabulary)
    _add_ends(backend, vocabulary, adds_bos)
    return backend


# --- byte-level BPE -----------------------------------------------------------------------------------------------


def _byte_level(vocabulary: Vocabulary) -> tuple[tokenizers.Tokenizer, bool]:
    """Return the tokenizer without its special tokens, and whether text begins with BOS by default."""
    metadata = vocabulary.metadata
    rules = _pre_tokenizer(metadata)
    _refuse(metadata, Keys.Tokenizer.ADD_PREFIX)
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=dict(vocabulary.ids), merges=_listed_merges(vocabulary), ignore_merges=rules.ignores_merges)
    )
    normalizer = rules.normalizer()
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = rules.pre_tokenizer()
    backend.decoder = decoders.ByteLevel()
    return backend, rules.adds_bos


def _pre_tokenizer(metadata: Metadata) -> PreTokenizer:
    name = metadata.find(Keys.Tokenizer.PRE, str)
    if name in PRE_TOKENIZERS:
        return PRE_TOKENIZERS[name]
    if name in (None, "default"):
        raise metadata.invalid(
            Keys.Tokenizer.PRE,
            "does not name a pre-tokeniser, as files of before May 2024 do not, so text would be cut wrongly; "
            "take a file that was converted later",
        )
    raise metadata.invalid(
        Keys.Tokenizer.PRE,
        f"is {name!r:.60}, a pre-tokeniser that cede does not know; it knows {', '.join(PRE_TOKENIZERS)}",
    )


def _listed_merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Return the merges that the file lists, in order."""
    return [_parsed_merge(vocabulary, merge) for merge in vocabulary.metadata.require_list(Keys.Tokenizer.MERGES, str)]


def _parsed_merge(vocabulary: Vocabulary, merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    if not left or not right or not all(token in vocabulary.ids for token in (left, right, left + right)):
        raise vocabulary.metadata.invalid(Keys.Tokenizer.MERGES, f"has {merge!r:.60}, which does not join two tokens")
    return left, right


# --- SentencePiece BPE --------------------------------------------------------------------------------------------


def _sentence_piece(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """Return the tokenizer without its special tokens."""
    metadata = vocabulary.metadata
    _refuse(metadata, Keys.Tokenizer.REMOVE_EXTRA_WS)
    if Keys.Tokenizer.PRECOMPILED_CHARSMAP in metadata:
        raise metadata.invalid(Keys.Tokenizer.PRECOMPILED_CHARSMAP, "would have text rewritten, which cede does not do")
    adds_space = _adds_space(vocabulary)
    has_bytes = _has_byte_tokens(vocabulary)
    unknown = vocabulary.special_id(Keys.Tokenizer.UNK_ID)
    backend = tokenizers.Tokenizer(
        models.BPE(
            vocab=dict(vocabulary.ids),
            merges=_listed_merges(vocabulary) if vocabulary.model == GEMMA4 else _merges_by_score(vocabulary),
            unk_token=None if unknown is None else vocabulary.tokens[unknown],
            fuse_unk=True,
            byte_fallback=has_bytes,
        )
    )
    mark_spaces = normalizers.Replace(" ", _SPACE_MARK)
    backend.normalizer = (
        normalizers.Sequence([normalizers.Prepend(_SPACE_MARK), mark_spaces]) if adds_space else mark_spaces
    )
    parts = [decoders.Replace(_SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if adds_space else parts)
    return backend


def _adds_space(vocabulary: Vocabulary) -> bool:
    """Return whether a text is read as if a space stood before it."""
    given = vocabulary.metadata.find(Keys.Tokenizer.ADD_PREFIX, bool)
    return vocabulary.model == SENTENCE_PIECE if given is None else given


def _has_byte_tokens(vocabulary: Vocabulary) -> bool:
    """Return whether there is a token for each byte; there may be none, but not some."""
    found = {
        token
        for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True)
        if kind == TokenType.BYTE
    }  # fmt: skip
    if found and found != _BYTE_TOKENS:
        raise vocabulary.metadata.invalid(
            Keys.Tokenizer.TOKEN_TYPE, f"has {len(found)} byte tokens, and they should be the 256 from <0x00> to <0xFF>"
        )
    return bool(found)


def _merges_by_score(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Return all pairs of tokens that make up a third, those that make the token of the highest score first.

    Where two pairs make the same token, the one whose first part is longer comes first, as in transformers.
    """
    scores = _scores(vocabulary)
    pieces = {
        token: scores[token_id]
        for token_id, token in enumerate(vocabulary.tokens)
        if vocabulary.types[token_id] == TokenType.NORMAL
    }
    _check_pieces(vocabulary, pieces)
    pairs = [
        (score, cut, len(token) - cut, token)
        for token, score in pieces.items()
        for cut in range(1, len(token))
        if token[:cut] in pieces and token[cut:] in pieces
    ]
    pairs.sort(key=itemgetter(0, 1, 2), reverse=True)  # stable: equal ones stay in the order of ids
    return [(token[:cut], token[cut:]) for _, cut, _, token in pairs]


def _scores(vocabulary: Vocabulary) -> list[float]:
    scores = vocabulary.metadata.require_list(Keys.Tokenizer.SCORES, float)
    if len(scores) != len(vocabulary.tokens):
        raise vocabulary.metadata.invalid(
            Keys.Tokenizer.SCORES, f"has {len(scores)} entries for {len(vocabulary.tokens)} tokens"
        )
    if not all(map(math.isfinite, scores)):
        raise vocabulary.metadata.invalid(Keys.Tokenizer.SCORES, "has a score that is not a finite number")
    return scores


def _check_pieces(vocabulary: Vocabulary, pieces: dict[str, float]) -> None:
    """Refuse what BPE with merges does not do as SentencePiece does."""
    longest = max(pieces, key=len, default="")
    if len(longest) > _MAX_PIECE:
        raise vocabulary.metadata.invalid(
            Keys.Tokenizer.LIST, f"has a token of {len(longest)} characters; {_MAX_PIECE} are the most that cede takes"
        )
    for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True):
        # SentencePiece would join its parts, and take them apart again in the end.
        if kind == TokenType.UNUSED and any(token[:cut] in pieces and token[cut:] in pieces for cut in _cuts(token)):
            raise vocabulary.metadata.invalid(
                Keys.Tokenizer.TOKEN_TYPE, f"says that {token!r:.60} is unused, and it is the join of two other tokens"
            )


def _cuts(token: str) -> Iterator[int]:
    return iter(range(1, min(len(token), _MAX_PIECE)))


# --- what both have -----------------------------------------------------------------------------------------------


def _add_found_tokens(backend: tokenizers.Tokenizer, vocabulary: Vocabulary) -> None:
    """Let the library find in a text, before anything else, the tokens that are found as they are spelled."""
    is_sentence_piece = vocabulary.model != BYTE_LEVEL
    strips = is_sentence_piece and vocabulary.metadata.find(Keys.General.ARCHITECTURE, str) == _STRIPPING_ARCHITECTURE
    # SentencePiece finds its tokens where spaces are marked already, so that a mark may be one that was typed.
    marks = is_sentence_piece and not _adds_space(vocabulary)
    found = [
        tokenizers.AddedToken(
            token,
            normalized=marks and " " in token,
            rstrip=strips and token not in _NOT_STRIPPING,
            special=vocabulary.is_special(token_id),
        )
        for token_id, token in enumerate(vocabulary.tokens)
        if vocabulary.types[token_id] in FOUND_IN_TEXT
    ]
    backend.add_tokens(found)


def _add_ends(backend: tokenizers.Tokenizer, vocabulary: Vocabulary, adds_bos: bool) -> None:
    """Let the post-processor add BOS and EOS to a plain prompt, where the file says so."""
    before, after = (
        _end(vocabulary, flag, key, default)
        for flag, key, default in (
            (Keys.Tokenizer.ADD_BOS, Keys.Tokenizer.BOS_ID, adds_bos),
            (Keys.Tokenizer.ADD_EOS, Keys.Tokenizer.EOS_ID, False),
        )
    )
    template = [*(["BOS"] if before is not None else []), "$A", *(["EOS"] if after is not None else [])]
    names = {"BOS": before, "EOS": after}
    backend.post_processor = processors.TemplateProcessing(
        single=template,
        special_tokens=[
            {"id": name, "ids": [token_id], "tokens": [vocabulary.tokens[token_id]]}
            for name, token_id in names.items()
            if token_id is not None
        ],
    )


def _end(vocabulary: Vocabulary, flag: str, key: str, default: bool) -> int | None:
    """Return the id of the token to add, or None."""
    given = vocabulary.metadata.find(flag, bool)
    if not (default if given is None else given):
        return None
    token_id = vocabulary.special_id(key)
    if token_id is None:
        raise vocabulary.metadata.invalid(key, "is missing, and text is to have that token added")
    return token_id


def _refuse(metadata: Metadata, key: str) -> None:
    """Refuse a switch that is on."""
    if metadata.find(key, bool):
        raise metadata.invalid(key, "is true, which cede does not follow here")
