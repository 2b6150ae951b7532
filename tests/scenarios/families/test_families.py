"""Prefix cache, restore, hang-up and retry, audit, company and speculation over layers of every kind."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import trio

from actors.core.events import Committed
from actors.core.observer import Observer
from runtime.checkpoint.open import open_checkpoint
from runtime.kv.blocks import BLOCK_TOKENS
from runtime.loading.served import Proposer
from runtime.step.step import Segment
from tests.models.assistants import write_gemma4
from tests.models.checkpoints import FAMILIES
from tests.models.mtp_checkpoints import write_agreeing_qwen3_5, write_deepseek3
from tests.models.step_driver import Running, generate, open_transformer, random_tokens, run
from tests.scenarios.families.engines import CHUNK, Answer, ask, open_family

TOKENS = 12
PROMPT = random_tokens(150, below=256, seed=1)
OTHER = random_tokens(90, below=256, seed=2)

KV_ALONE = ["deepseek2-lite", "deepseek3", "qwen3-moe", "gpt-oss", "gemma4-layer-inputs"]
HYBRIDS = ["lfm2"]
only_kv_alone = pytest.mark.parametrize("folder", KV_ALONE, indirect=True)


@pytest.fixture(scope="module", params=KV_ALONE + HYBRIDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers that are not Llama's.

    Latent attention with experts, queries of the hidden state or of a latent of their own; experts alone; experts with
    sinks and a window in every other layer; heads of two sizes, with KV that layers share; and recurrent layers beside
    attention.
    """
    folder = tmp_path_factory.mktemp(request.param)
    FAMILIES[request.param](folder)
    return folder


def alone(folder: Path, prompt: list[int], tokens: int = TOKENS) -> list[int]:
    """Return what the model says to a prompt that has it to itself."""
    return list(_alone(folder, tuple(prompt), tokens))


@cache
def _alone(folder: Path, prompt: tuple[int, ...], tokens: int) -> list[int]:
    return generate(open_transformer(folder, slots=1), [Running(0, list(prompt))], tokens)[0]


def is_hybrid(folder: Path) -> bool:
    """Return whether some layers are recurrent."""
    return open_checkpoint(folder).config.is_hybrid


# --- KV that is there -------------------------------------------------------------------------------------------------


async def test_a_conversation_goes_on_from_what_is_there(folder: Path) -> None:
    async with open_family(folder) as engine:
        first = await ask(engine, "first", PROMPT, TOKENS)
        longer = [*PROMPT, *first.tokens, *OTHER[:5]]
        second = await ask(engine, "second", longer, TOKENS)
    assert first.tokens == alone(folder, PROMPT)
    assert second.tokens == alone(folder, longer)
    assert second.cached >= len(PROMPT) + TOKENS - 1


async def test_a_prompt_that_differs_goes_on_from_where_it_does(folder: Path) -> None:
    other = [*PROMPT[:100], *OTHER]
    async with open_family(folder, slots=1) as engine:
        await ask(engine, "first", PROMPT, TOKENS)
        second = await ask(engine, "second", other, TOKENS)
    assert second.tokens == alone(folder, other)
    assert second.cached == (88 if is_hybrid(folder) else 100)  # there is a state at the end of each chunk


@only_kv_alone
@pytest.mark.parametrize("tier", ["ram", "disk"])
async def test_what_has_left_its_slot_is_restored(folder: Path, tier: str, tmp_path: Path) -> None:
    """From memory after another has used the only slot, and from disk after a restart."""
    disk = tmp_path / "kv" if tier == "disk" else None
    async with open_family(folder, slots=1, disk=disk, audit_share=1.0) as engine:
        first = await ask(engine, "first", PROMPT, TOKENS)
        if tier == "ram":
            await ask(engine, "other", OTHER, TOKENS)
            again = await ask(engine, "again", PROMPT, TOKENS)
    if tier == "disk":
        async with open_family(folder, slots=1, disk=disk, audit_share=1.0) as engine:
            again = await ask(engine, "again", PROMPT, TOKENS)
    assert again.tokens == first.tokens == alone(folder, PROMPT)
    assert again.cached >= BLOCK_TOKENS


@pytest.mark.parametrize("hang_up_after", [1, 5])
async def test_a_retry_finds_what_was_computed(folder: Path, hang_up_after: int) -> None:
    async with open_family(folder) as engine:
        gone = await ask(engine, "gone", PROMPT, TOKENS, hang_up_after=hang_up_after)
        retry = await ask(engine, "retry", PROMPT, TOKENS)
    assert retry.tokens == alone(folder, PROMPT)
    assert retry.tokens[:hang_up_after] == gone.tokens
    assert retry.cached >= len(PROMPT) - 1


class Reading(Observer):
    """Says when two chunks of a prompt have been read."""

    def __init__(self) -> None:
        self.two_chunks = trio.Event()

    def committed(self, event: Committed) -> None:
        """Look how far it is."""
        if event.start + event.rows >= 2 * CHUNK:
            self.two_chunks.set()


async def test_a_retry_goes_on_where_a_prompt_was_left(folder: Path) -> None:
    reading = Reading()
    async with open_family(folder) as engine:
        with engine.observed_by(reading):
            async with trio.open_nursery() as clients:
                clients.start_soon(ask, engine, "gone", PROMPT, TOKENS)
                await reading.two_chunks.wait()
                clients.cancel_scope.cancel()
        (receipt,) = engine.receipts(10)
        retry = await ask(engine, "retry", PROMPT, TOKENS)
    assert receipt.phase == "prefill"
    assert 2 * CHUNK <= retry.cached < len(PROMPT) - 1
    assert retry.tokens == alone(folder, PROMPT)


# --- company ----------------------------------------------------------------------------------------------------------


async def test_neighbours_of_a_hang_up_go_on(folder: Path) -> None:
    stays: dict[str, Answer] = {}

    async def stay(name: str, prompt: list[int]) -> None:
        stays[name] = await ask(engine, name, prompt, TOKENS)

    async with open_family(folder, slots=3) as engine, trio.open_nursery() as clients:
        clients.start_soon(stay, "long", PROMPT)
        clients.start_soon(stay, "short", OTHER)
        await ask(engine, "leaver", OTHER[::-1], TOKENS, hang_up_after=2)
    assert stays["long"].tokens == alone(folder, PROMPT)
    assert stays["short"].tokens == alone(folder, OTHER)


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_a_cancel_in_any_layer_changes_nobody_s_text(folder: Path, layer: int) -> None:
    """One segment leaves the step, and the same slot goes on from what it had."""
    model = open_transformer(folder)
    leaver, stayer = Running(0, PROMPT, chunk=30), Running(1, OTHER, chunk=40)
    generate(model, [Running(2, OTHER[:20])], 1)
    segments = [leaver.next_segment(), stayer.next_segment(), Segment(2, 20, [7])]
    results = run(model, segments, {layer: [segments[0]]}).segments
    assert [result.computed for result in results] == [layer == model.num_layers, True, True]
    stayer.commit(segments[1], results[1].tokens)
    assert generate(model, [leaver, stayer], TOKENS) == [alone(folder, PROMPT), alone(folder, OTHER)]


# --- speculation ------------------------------------------------------------------------------------------------------


@only_kv_alone
@pytest.mark.parametrize("proposer", [Proposer.NGRAM, Proposer.DRAFT])
async def test_drafts_change_no_text(folder: Path, proposer: Proposer) -> None:
    """Looked up in texts that repeat themselves; and the model drafts for itself, so that every draft is accepted."""
    prompts = [OTHER[:length] * (90 // length) for length in (1, 2, 9, 30)]
    draft = folder if proposer is Proposer.DRAFT else None
    async with open_family(folder, speculate=proposer, draft=draft) as engine:
        answers = [await ask(engine, str(i), prompt, 3 * TOKENS) for i, prompt in enumerate(prompts)]
        speculation = engine.statistics().speculation
    assert [answer.tokens for answer in answers] == [alone(folder, prompt, 3 * TOKENS) for prompt in prompts]
    assert speculation.drafted_tokens > 0
    if proposer is Proposer.DRAFT:
        assert speculation.accepted_tokens == speculation.drafted_tokens


async def test_a_prediction_that_is_right_in_part_changes_no_text(folder: Path) -> None:
    """Of its drafts some are accepted, and what follows on those that are not is computed from what was before them.

    Of a hybrid, not all that are accepted leave a state.
    """
    tokens = 4 * TOKENS
    right = alone(folder, PROMPT, tokens)
    prediction = [(token + 1) % 256 if place % 7 == 5 else token for place, token in enumerate(right)]
    async with open_family(folder, speculate=Proposer.NGRAM, drafts=7, state_memory=0) as engine:
        predicted = await ask(engine, "predicted", PROMPT, tokens, prediction=prediction)
        longer = [*PROMPT, *predicted.tokens, *OTHER[:5]]
        second = await ask(engine, "second", longer, TOKENS)
        speculation = engine.statistics().speculation
    assert predicted.tokens == right
    assert second.tokens == alone(folder, longer)
    assert 0 < speculation.accepted_tokens < speculation.drafted_tokens
    assert second.cached >= len(PROMPT)


async def test_a_module_behind_the_layers_changes_no_text(tmp_path: Path) -> None:
    """DeepSeek-V3's own, which has a latent and experts of its own, over the target's hidden states."""
    write_deepseek3(tmp_path)
    async with open_family(tmp_path, speculate=Proposer.MTP) as engine:
        answers = [await ask(engine, str(i), prompt, TOKENS) for i, prompt in enumerate((PROMPT, OTHER, OTHER[:1]))]
        speculation = engine.statistics().speculation
    assert [answer.tokens for answer in answers] == [alone(tmp_path, prompt) for prompt in (PROMPT, OTHER, OTHER[:1])]
    assert speculation.drafted_tokens > 0


async def test_a_hybrids_own_module_changes_no_text_wherever_a_prompt_is_cut(tmp_path: Path) -> None:
    """A slot is left in the middle of a text, and goes on elsewhere: from a state, with its drafter's KV."""
    write_agreeing_qwen3_5(tmp_path)
    async with open_family(tmp_path, slots=1, speculate=Proposer.MTP) as engine:
        for cut in (149, 97, 96, 95, 65, 24, 1):
            gone = await ask(engine, f"gone {cut}", PROMPT, 3 * TOKENS, hang_up_after=cut % TOKENS + 1)
            prompt = [*PROMPT[:cut], *OTHER[: cut % 5]]
            answer = await ask(engine, f"cut at {cut}", prompt, TOKENS)
            assert answer.tokens == alone(tmp_path, prompt)
            assert gone.tokens == alone(tmp_path, PROMPT, 3 * TOKENS)[: len(gone.tokens)]
        speculation = engine.statistics().speculation
    assert 0 < speculation.accepted_tokens < speculation.drafted_tokens


async def test_a_drafter_that_reads_the_targets_kv_changes_no_text(tmp_path: Path) -> None:
    """Gemma 4's: whoever hangs up meanwhile, and whether the KV was computed or restored."""
    target = tmp_path / "target"
    write_gemma4(target, tmp_path / "assistant", "gemma4-layer-inputs")
    async with open_family(target, slots=1, speculate=Proposer.ASSISTANT, draft=tmp_path / "assistant") as engine:
        for prompt in (PROMPT, OTHER, [*PROMPT[:70], *OTHER[:3]], OTHER[:1]):
            gone = await ask(engine, f"gone {len(prompt)}", prompt, TOKENS, hang_up_after=5)
            answer = await ask(engine, str(len(prompt)), prompt, TOKENS)
            assert answer.tokens == alone(target, prompt)
            assert gone.tokens == answer.tokens[:5]
        speculation = engine.statistics().speculation
    assert speculation.drafted_tokens > 0
