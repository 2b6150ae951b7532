"""What is said of a model before it is loaded is what loading it then does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.loading import fit as module
from runtime.loading import footprint as footprints
from runtime.loading import load as loading
from runtime.loading.fit import fits_of, what_fits
from runtime.loading.load import load_model
from runtime.loading.options import LoadOptions
from runtime.nn.matrices.quantization import Quantization
from runtime.store.resolve import resolve_model
from tests.models.checkpoints import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import torch

    SetFree = Callable[[int], None]


@pytest.fixture
def set_free(monkeypatch: pytest.MonkeyPatch) -> SetFree:
    """Says how much memory there is, to those who foresee and to those who load."""

    def free(nbytes: int) -> None:
        def answer(device: torch.device) -> int:
            return nbytes

        monkeypatch.setattr(module, "memory_limit", answer)
        monkeypatch.setattr(footprints, "memory_limit", answer)
        monkeypatch.setattr(loading, "free_memory", answer)

    return free


def embedded(**changes: object) -> LoadOptions:
    return replace(LoadOptions(resolve_model(None), device="cpu", dtype="float32"), **changes)  # type: ignore[arg-type]


def test_a_model_that_fits_says_yes_with_its_own_context() -> None:
    options = embedded()
    config = open_checkpoint(options.path).config
    fits = fits_of(options, config)
    assert what_fits(fits) == "yes"
    assert [fit.quantize for fit in fits] == [Quantization.AUTO, Quantization.INT8, Quantization.INT4]
    assert [fit.context for fit in fits] == [config.context_length] * 3
    assert fits[0].takes.weights > fits[1].takes.weights > fits[2].takes.weights
    assert f"{options.slots} slots of {config.context_length} tokens fit into" in str(fits[0])


def test_what_is_left_for_the_context_is_said_and_is_no_more_than_there_is(set_free: SetFree) -> None:
    options = embedded(slots=2)
    config = open_checkpoint(options.path).config
    whole = fits_of(options, config)[0].takes
    set_free(whole.without_kv + 2 * whole.slot.nbytes(1024))
    fit = fits_of(options, config)[0]
    assert 0 < fit.context < config.context_length
    assert what_fits([fit]) == f"context {fit.context}"
    assert 2 * whole.slot.nbytes(fit.context) <= fit.free - whole.weights


def test_a_model_that_fits_in_fewer_bits_alone_says_which(set_free: SetFree, tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    options = embedded(path=tmp_path, slots=1)
    config = open_checkpoint(tmp_path).config
    full, eight, _ = fits_of(options, config)
    assert eight.takes.without_kv < full.takes.without_kv
    set_free(full.takes.without_kv - 1)
    assert what_fits(fits_of(options, config)).startswith("--quantize int8")


def test_a_model_that_does_not_fit_says_no_and_is_not_loaded(set_free: SetFree) -> None:
    options = embedded()
    checkpoint = open_checkpoint(options.path)
    set_free(1 << 20)
    fits = fits_of(options, checkpoint.config)
    assert what_fits(fits) == "no"
    assert str(fits[0]).endswith("does not fit into 1 MiB")
    with pytest.raises(CheckpointError, match="1 MiB are free"):
        load_model(options, checkpoint)
