"""Prompts for filling in the middle."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import AddedToken

from runtime.errors import RequestError
from runtime.text.tokenizer import Tokenizer
from tests.fakes.byte_tokenizer import BOS, STARCODER, InfillTokenizer
from tests.fakes.engine import CONTEXT, model
from tests.models.small_tokenizers import llama2_style
from web.generation.infill import Infill, infill_end_ids, infill_prompt

FILES = {"<file_sep>": 4, "<repo_name>": 5}


def test_the_parts_and_what_the_answer_begins_with() -> None:
    served = model(tokenizer=InfillTokenizer(STARCODER))
    assert infill_prompt(Infill("a", "b"), served, "suffix") == (BOS, 1, *b"a", 2, *b"b", 3)
    assert infill_prompt(Infill("a", "b", begun="c"), served, "suffix") == (BOS, 1, *b"a", 2, *b"b", 3, *b"c")
    assert infill_prompt(Infill("", ""), served, "suffix") == (BOS, 1, 2, 3)


def test_other_files() -> None:
    infill = Infill("a", "b", files=[("x.py", "1"), ("", "2")])
    served = model(tokenizer=InfillTokenizer(STARCODER | FILES))
    shown = b"\5myproject\n\4x.py\n1\n\4filename\n2\n\4filename\n\1a\2b\3"
    assert infill_prompt(infill, served, "suffix") == (BOS, *shown)
    served = model(tokenizer=InfillTokenizer(STARCODER))
    assert infill_prompt(infill, served, "suffix") == (BOS, *b"x.py\n1\nfilename\n2\n\1a\2b\3")


def test_of_other_files_the_last_that_fit() -> None:
    infill = Infill("a", "b", files=[("x.py", "1" * 20), ("y.py", "2" * 20), ("z.py", "3" * 20)])
    served = model(tokenizer=InfillTokenizer(STARCODER | FILES))
    last = b"\4z.py\n" + b"3" * 20 + b"\n"
    frame, gap = (BOS, *b"\5myproject\n"), b"\4filename\n\1a\2b\3"
    assert infill_prompt(infill, served, "suffix") == (*frame, *last, *gap)
    most = CONTEXT - len((*frame, *last, *gap))
    assert infill_prompt(infill, served, "suffix", room=most) == (*frame, *last, *gap)
    assert infill_prompt(infill, served, "suffix", room=most + 1) == (BOS, *b"\1a\2b\3")


def test_what_says_that_a_gap_is_filled() -> None:
    served = model(tokenizer=InfillTokenizer(STARCODER | FILES | {"<|endoftext|>": 6}))
    assert infill_end_ids(served) == (1, 2, 3, 4, 5, 6)
    assert infill_end_ids(model(tokenizer=InfillTokenizer())) == (1, 2, 3)
    assert infill_end_ids(model()) == ()


def test_a_model_that_cannot_says_so() -> None:
    with pytest.raises(RequestError, match="no tokens for filling in the middle") as refused:
        infill_prompt(Infill("a", "b"), model(), "suffix")
    assert (refused.value.status, refused.value.param) == (400, "suffix")


@pytest.mark.parametrize("infill", [Infill("a" * CONTEXT, ""), Infill("a" * 40, "b" * 40), Infill("", "a" * 10**6)])
def test_what_does_not_fit_is_refused(infill: Infill) -> None:
    with pytest.raises(RequestError) as refused:
        infill_prompt(infill, model(tokenizer=InfillTokenizer(STARCODER)), "suffix")
    assert refused.value.code == "context_length_exceeded"


def test_a_text_in_the_middle_has_no_space_before_it() -> None:
    """SentencePiece's tokenizers put a space before whatever they encode; the text after a gap has none."""
    backend = tokenizers.Tokenizer.from_str(llama2_style().to_str())
    backend.add_special_tokens([AddedToken(name, normalized=False) for name in ("▁<PRE>", "▁<SUF>", "▁<MID>")])
    tokenizer = Tokenizer(backend)
    served = model(tokenizer=tokenizer, vocab_size=tokenizer.vocab_size, context_length=512)
    ids = infill_prompt(Infill("the dog", "the dog"), served, "suffix")
    before, after = texts_around(tokenizer, ids)
    assert after == b"the dog"
    assert before == b" the dog"  # as Code Llama was trained


def texts_around(tokenizer: Tokenizer, ids: tuple[int, ...]) -> tuple[bytes, bytes]:
    """The bytes before and after the gap of a prompt in Code Llama's order."""
    prefix, suffix, middle = (ids.index(tokenizer.vocabulary[name]) for name in ("▁<PRE>", "▁<SUF>", "▁<MID>"))
    before, after = ids[prefix + 1 : suffix], ids[suffix + 1 : middle]
    return b"".join(map(tokenizer.token_bytes, before)), b"".join(map(tokenizer.token_bytes, after))
