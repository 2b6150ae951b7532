"""Choice among many GGUF files."""

from __future__ import annotations

import pytest

from runtime.errors import CheckpointError
from runtime.store.gguf_names import choose_gguf, first_part, gguf_models, missing_parts, quantisation_of

REPOSITORY = [
    "README.md",
    "config.json",
    "model-Q4_K_M.gguf",
    "model-Q4_K_S.gguf",
    "model-UD-Q4_K_XL.gguf",
    "model.IQ4_XS.gguf",
    "BF16/model-BF16-00001-of-00002.gguf",
    "BF16/model-BF16-00002-of-00002.gguf",
    "mmproj-model-F16.gguf",
    "model.imatrix.gguf",
]


@pytest.mark.parametrize(
    ("tag", "files"),
    [
        (None, ("model-Q4_K_M.gguf",)),
        ("q4_k_m", ("model-Q4_K_M.gguf",)),
        ("Q4_K_S", ("model-Q4_K_S.gguf",)),
        ("Q4_K_XL", ("model-UD-Q4_K_XL.gguf",)),
        ("UD-Q4_K_XL", ("model-UD-Q4_K_XL.gguf",)),
        ("IQ4_XS", ("model.IQ4_XS.gguf",)),
        ("bf16", ("BF16/model-BF16-00001-of-00002.gguf", "BF16/model-BF16-00002-of-00002.gguf")),
        ("MODEL-q4_k_s.GGUF", ("model-Q4_K_S.gguf",)),
        (
            "model-BF16-00001-of-00002.gguf",
            ("BF16/model-BF16-00001-of-00002.gguf", "BF16/model-BF16-00002-of-00002.gguf"),
        ),
    ],
)
def test_a_tag_chooses_one_model_in_any_case(tag: str | None, files: tuple[str, ...]) -> None:
    assert choose_gguf("org/name", REPOSITORY, tag) == files


@pytest.mark.parametrize("tag", ["Q4_K", "Q4", "F16", "Q8_0", "other.gguf", "."])
def test_a_tag_that_none_has_lists_what_there_is(tag: str) -> None:
    with pytest.raises(CheckpointError, match=r"org/name: holds no GGUF file for .*; there are: .*model-Q4_K_M\.gguf"):
        choose_gguf("org/name", REPOSITORY, tag)


def test_without_a_tag_the_eight_bit_one_comes_second_and_the_only_one_last() -> None:
    assert choose_gguf("x", ["a-Q2_K.gguf", "a-Q8_0.gguf"], None) == ("a-Q8_0.gguf",)
    assert choose_gguf("x", ["a-Q2_K.gguf"], None) == ("a-Q2_K.gguf",)
    with pytest.raises(CheckpointError, match=r"more than one GGUF file is a model; name one: a-Q2_K\.gguf, a-Q3_K"):
        choose_gguf("x", ["a-Q2_K.gguf", "a-Q3_K_M.gguf"], None)


def test_a_tag_that_two_have_is_not_guessed_at() -> None:
    with pytest.raises(CheckpointError, match=r"meant by Q4_0; name one: a-Q4_0\.gguf, b-Q4_0\.gguf"):
        choose_gguf("x", ["a-Q4_0.gguf", "b-Q4_0.gguf"], "Q4_0")


def test_no_gguf_at_all_is_said() -> None:
    with pytest.raises(CheckpointError, match="x: holds no GGUF model"):
        choose_gguf("x", ["README.md", "mmproj-F16.gguf"], None)


def test_a_missing_part_is_named() -> None:
    names = ["a-00001-of-00003.gguf", "a-00003-of-00003.gguf"]
    assert missing_parts(names[0], names) == ["a-00002-of-00003.gguf"]
    with pytest.raises(CheckpointError, match=r"a-00002-of-00003\.gguf is missing"):
        choose_gguf("x", names, None)
    assert gguf_models(names[1:]) == {}


def test_an_absurd_count_of_parts_costs_no_time() -> None:
    assert len(missing_parts("a-00001-of-99999.gguf", [])) < 10_000


def test_a_later_part_leads_to_the_first() -> None:
    assert first_part("a-00002-of-00003.gguf") == "a-00001-of-00003.gguf"
    assert first_part("a.gguf") == "a.gguf"


@pytest.mark.parametrize(
    ("name", "quantisation"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("Qwen3-0.6B-Q8_0.gguf", "Q8_0"),
        ("gemma-3-270m-q4_k_m.gguf", "Q4_K_M"),
        ("a-BF16-00001-of-00002.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("IQ.gguf", None),
        ("model.gguf", None),
    ],
)
def test_a_file_name_says_its_quantisation(name: str, quantisation: str | None) -> None:
    assert quantisation_of(name) == quantisation
