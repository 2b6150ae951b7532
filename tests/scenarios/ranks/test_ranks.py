"""Two ranks say what one says: in every family, whoever is cancelled, whatever fails, wherever KV is moved."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from runtime.checkpoint.open import open_checkpoint
from runtime.devices.parallel.share import check_shares
from runtime.devices.parallel.shared_step import StepAborted
from runtime.errors import CheckpointError
from runtime.nn.matrices.quantization import Quantization
from runtime.sampling.tokens import TokenLogprobs
from runtime.step.step import Segment
from runtime.step.transfer import Copy, CopyPage, Load, Save
from tests.models.checkpoints import FAMILIES
from tests.models.ranks import Ranks, open_ranks
from tests.models.step_driver import Running, generate, open_transformer, pages_of, random_tokens

TOKENS = 4
PROMPT, OTHER = random_tokens(40, below=256, seed=1), random_tokens(23, below=256, seed=2)
TOLERANCE = 1e-3  # of a log-probability in float32; sums are rounded in another order
CONTEXT = 256  # of a slot, which has so many places in the pool
MOST_LAYERS = 3  # two, and one that may end between the moment of a cancel and its mark


def two() -> list[Running]:
    return [Running(0, PROMPT, chunk=25), Running(1, OTHER)]


def say(ranks: Ranks, sequences: Sequence[Running], tokens: int = TOKENS) -> list[list[int]]:
    """Bring all to so many tokens, in steps that they share."""
    while running := [sequence for sequence in sequences if len(sequence.output) < tokens]:
        segments = [sequence.next_segment() for sequence in running]
        for sequence, segment, result in zip(running, segments, ranks.run(segments).segments, strict=True):
            assert result.computed
            sequence.commit(segment, result.tokens)
    return [sequence.output for sequence in sequences]


@cache
def alone(folder: Path) -> list[list[int]]:
    return generate(open_transformer(folder), two(), TOKENS)


def scores(logprobs: Sequence[TokenLogprobs | None]) -> list[float]:
    return [own.logprob for own in logprobs if own is not None]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_says_the_same(family: str, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    config = open_checkpoint(tmp_path).config
    refusals = {
        "recurrent layers": config.is_hybrid,
        "layers of several sizes": bool(config.layer_shapes),
        "the key and value heads of": config.num_kv_heads == 1,
    }
    why = next((what for what, refused in refusals.items() if refused), None)
    if why is not None:
        with pytest.raises(CheckpointError, match=why):
            check_shares(config, 2)
        return
    check_shares(config, 2)
    expected, said = two(), two()
    generate(open_transformer(tmp_path), expected, TOKENS)
    with open_ranks(tmp_path) as ranks:
        say(ranks, said)
    assert [own.output for own in said] == [own.output for own in expected]
    for own, other in zip(said, expected, strict=True):
        assert scores(own.logprobs) == pytest.approx(scores(other.logprobs), abs=TOLERANCE)


def test_four_ranks_say_the_same(tmp_path: Path) -> None:
    FAMILIES["llama-mha"](tmp_path)
    with open_ranks(tmp_path, 4) as ranks:
        assert say(ranks, two()) == alone(tmp_path)


def leave(leaving: Sequence[Segment]) -> None:
    for segment in leaving:
        segment.mark.set(lambda: 0.0)


@pytest.fixture(scope="module", params=["llama", "gpt-oss", "deepseek3", "olmo2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dense layers, experts with rings, latents, and norms of all heads together."""
    folder = tmp_path_factory.mktemp(request.param)
    FAMILIES[request.param](folder)
    return folder


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_a_cancel_in_any_layer_changes_nobody_s_text(folder: Path, layer: int) -> None:
    leaver, stayer = two()
    with open_ranks(folder) as ranks:
        segments = [leaver.next_segment(), stayer.next_segment(), Segment(2, 0, [7])]
        first, second, third = ranks.run(segments, {layer: [segments[0]]}).segments
        # One that is set behind the first layer but one rides in the last layer's sums, and comes too late.
        assert first.computed == (layer >= 2)
        assert first.layers_after_cancel <= MOST_LAYERS
        assert second.computed
        assert third.computed
        stayer.commit(segments[1], second.tokens)
        assert say(ranks, [leaver, stayer]) == alone(folder)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_rank_that_fails_costs_one_step(folder: Path, rank: int, layer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others leave the step, too, and the next one is computed by all."""
    with open_ranks(folder) as ranks:
        say(ranks, [Running(2, OTHER)], 1)
        model = ranks.model if rank == 0 else ranks.followers[rank]
        run_layer = model.run_layer

        def fail(batch: object, index: int) -> int:
            if index == layer:
                monkeypatch.undo()
                raise MemoryError("no room")
            return run_layer(batch, index)  # type: ignore[arg-type]

        monkeypatch.setattr(model, "run_layer", fail)
        with pytest.raises(MemoryError if rank == 0 else StepAborted):
            ranks.run([Segment(0, 0, PROMPT)])
        assert say(ranks, two()) == alone(folder)


def test_cancels_at_any_moment_change_nobody_s_text_and_hold_nobody_up(folder: Path) -> None:
    drawn = random.Random(5)
    with open_ranks(folder) as ranks:
        for _ in range(40):
            segments = [Segment(slot, 0, PROMPT[: 8 + slot]) for slot in range(3)]
            leaving = [segment for segment in segments if drawn.random() < 0.7]

            client = threading.Timer(drawn.random() * 0.01, leave, (leaving,))
            client.start()
            results = ranks.run(segments).segments
            client.join()
            for segment, result in zip(segments, results, strict=True):
                assert result.computed or segment in leaving
        assert say(ranks, two()) == alone(folder)


def test_a_mark_rides_in_the_next_sum_that_carries_any(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    with open_ranks(tmp_path) as ranks:
        segment = Segment(0, 0, PROMPT)
        (result,) = ranks.run([segment], {1: [segment]}).segments
        assert not result.computed
        assert result.layers_after_cancel <= 2


# --- KV ---------------------------------------------------------------------------------------------------------------


def test_kv_that_is_moved_is_all_ranks(folder: Path) -> None:
    """Saved, it is what one device would have saved; loaded or copied, it goes on as where it was."""
    single = open_transformer(folder, slots=4)
    expected = generate(single, [Running(0, PROMPT)], TOKENS)[0]
    length = len(PROMPT) + TOKENS - 1
    with open_ranks(folder) as ranks:
        pages = [pages_of(slot, CONTEXT) for slot in range(3)]
        first = Running(0, PROMPT)
        say(ranks, [first])
        assert first.output == expected
        saved = ranks.model.transfer(Save(0, 0, length, pages=pages[0]))
        of_one = single.transfer(Save(0, 0, length, pages=pages[0]))
        assert saved is not None
        assert of_one is not None
        assert saved.shape[1:] == (*ranks.model.kv.row_shape[1:3], length, ranks.model.kv.row_shape[3])
        torch.testing.assert_close(saved, of_one, atol=1e-4, rtol=1e-3)
        more = say(ranks, [first], 2 * TOKENS)[0]
        ranks.model.transfer(Load(1, 0, saved, pages=pages[1]))
        ranks.model.transfer(Copy(1, 2, 0, length, 0, pages[1], pages[2]))
        for slot in (1, 2):
            again = replace(first, slot=slot, output=list(expected), committed=length, logprobs=[])
            assert say(ranks, [again], 2 * TOKENS)[0] == more


def test_a_sequence_goes_on_in_a_copy_of_its_page(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    with open_ranks(tmp_path) as ranks:
        first = Running(0, PROMPT)
        said = say(ranks, [first])[0]
        length = len(PROMPT) + TOKENS - 1
        ranks.model.transfer(CopyPage(0, pages_of(0, CONTEXT).pages[0], pages_of(3, CONTEXT).pages[0], length))
        moved = replace(first, slot=3, output=list(said), committed=length, logprobs=[])
        assert say(ranks, [moved], 2 * TOKENS)[0] == say(ranks, [first], 2 * TOKENS)[0]


@pytest.mark.parametrize("quantize", [Quantization.INT8, Quantization.INT4])
def test_quantised_shares_say_something_near(quantize: Quantization, tmp_path: Path) -> None:
    """Scales are made of each share, so numbers differ as quantised ones do; all of them are there."""
    FAMILIES["llama"](tmp_path)
    with open_ranks(tmp_path, quantize=quantize) as ranks:
        step = ranks.run([Segment(0, 0, PROMPT)])
    assert step.segments[0].computed
