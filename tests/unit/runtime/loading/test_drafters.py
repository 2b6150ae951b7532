"""Drafters: the choice, the refusals, what they take, and draft models whose matrices are of another size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from transformers import LlamaConfig, LlamaForCausalLM

from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.kv.cache import kv_bytes_per_token
from runtime.loading import load as loading
from runtime.loading.drafters import (
    DrafterPlan,
    DraftModelPlan,
    MtpPlan,
    NoDrafter,
    choose_proposer,
    log_drafter,
    plan_drafter,
)
from runtime.loading.load import describe_model, load_model
from runtime.loading.options import LoadOptions
from runtime.loading.served import Proposer
from runtime.nn.weights import load_weights
from runtime.sampling.params import SamplingParams
from runtime.sampling.tokens import SampleSpec
from runtime.step.step import Segment
from runtime.store.resolve import embedded_draft, resolve_model
from runtime.text.tokenizer import Tokenizer
from tests.models.assistants import write_gemma4
from tests.models.checkpoints import FAMILIES
from tests.models.families.writing import VOCAB_SIZE, write_checkpoint
from tests.models.mtp_checkpoints import write_deepseek, write_mimo, write_nemotron, write_qwen3_5
from tests.models.speculation_driver import Speculating, open_pair, speculate
from tests.models.step_driver import Running, generate, open_transformer, random_tokens, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CPU = torch.device("cpu")


def plan(folder: Path, speculate: Proposer | None = None, **options: Any) -> DrafterPlan:  # noqa: ANN401
    asked = LoadOptions(folder, speculate=speculate, device="cpu", dtype="float32", **options)
    checkpoint = open_checkpoint(folder)
    return plan_drafter(asked, checkpoint, Tokenizer.load(checkpoint))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    FAMILIES["llama"](folder)
    return folder


@pytest.fixture(scope="module")
def smollm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model of the same vocabulary."""
    folder = tmp_path_factory.mktemp("smollm")
    FAMILIES["smollm"](folder)
    return folder


# --- the choice ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has_mtp", "has_draft", "chosen"),
    [
        (True, True, Proposer.MTP),
        (True, False, Proposer.MTP),
        (False, True, Proposer.DRAFT),
        (False, False, Proposer.NGRAM),
    ],
)
def test_auto_takes_the_best_that_there_is(has_mtp: bool, has_draft: bool, chosen: Proposer) -> None:
    assert choose_proposer(None, has_mtp=has_mtp, has_draft=has_draft) is chosen
    for wanted in Proposer:
        assert choose_proposer(wanted, has_mtp=has_mtp, has_draft=has_draft) is wanted


def test_the_embedded_model_brings_its_own() -> None:
    folder = resolve_model(None)
    assert isinstance(plan(folder), MtpPlan)
    assert isinstance(plan(folder, Proposer.DRAFT, draft=embedded_draft()), DraftModelPlan)


def test_a_model_without_looks_drafts_up(llama: Path, smollm: Path) -> None:
    assert plan(llama) == NoDrafter(Proposer.NGRAM)
    assert plan(llama, Proposer.OFF, draft=smollm) == NoDrafter(Proposer.OFF)
    assert plan(llama, draft=smollm).proposer is Proposer.DRAFT


@pytest.mark.parametrize("write", [write_deepseek, write_mimo])
def test_published_modules_are_found(tmp_path: Path, write: Callable[[Path], object]) -> None:
    write(tmp_path)
    assert plan(tmp_path).proposer is Proposer.MTP
    assert plan(tmp_path, Proposer.OFF) == NoDrafter(Proposer.OFF)


def test_one_line_says_who_drafts(llama: Path, smollm: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="cede.model")
    for asked in (Proposer.OFF, Proposer.NGRAM, Proposer.DRAFT):
        open_pair(llama, asked, draft=smollm if asked is Proposer.DRAFT else None)
        assert [message for message in caplog.messages if message.startswith(f"speculation: {asked}")]
    caplog.clear()
    log_drafter(plan(resolve_model(None), draft=smollm).proposer, smollm)
    assert caplog.messages == [
        "speculation: mtp, by the checkpoint's own module",
        f"the draft model in {smollm} is not used; it would be with --speculate draft",
    ]


# --- refusals -----------------------------------------------------------------------------------------------------


def test_mtp_of_a_checkpoint_that_has_none(llama: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no module for multi-token prediction; these are: mtp\.safetensors"):
        plan(llama, Proposer.MTP)


@pytest.mark.parametrize("name", ["mtp.fc.weight", "model.layers.4.eh_proj.weight", "model.layers.3.nextn.weight"])
def test_a_module_in_another_form_is_named(tmp_path: Path, name: str) -> None:
    """Qwen3-Next's, DeepSeek-V3's and GLM-4.5's habits, over a target that would be known."""
    FAMILIES["llama"](tmp_path)
    path = tmp_path / "model.safetensors"
    save_file(load_file(path) | {name: torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match=f"{name} is of a form that is not known"):
        plan(tmp_path, Proposer.MTP)


def test_a_file_of_another_form_beside_the_target(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    save_file({"mtp.layers.0.fc": torch.zeros(1)}, tmp_path / "mtp.safetensors")
    assert plan(tmp_path) == NoDrafter(Proposer.NGRAM)
    with pytest.raises(CheckpointError, match=r"mtp\.layers\.0\.fc is of a form"):
        plan(tmp_path, Proposer.MTP)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("enorm.weight", None, r"enorm\.weight: is missing"),
        ("mlp.up_proj.weight", None, r"mlp\.up_proj\.weight: is missing"),
        ("eh_proj.weight", torch.zeros(64, 64), r"eh_proj\.weight is \[64, 64\], config\.json makes it \[64, 128\]"),
        ("eh_proj.bias", torch.zeros(64), r"mtp\.safetensors: eh_proj\.bias belongs to no part"),
        ("enorm.weight", torch.zeros(64, dtype=torch.int8), r"enorm\.weight has numbers of the type I8"),
    ],
)
def test_a_module_that_does_not_fit(tmp_path: Path, name: str, tensor: torch.Tensor | None, message: str) -> None:
    write_deepseek(tmp_path)
    path = tmp_path / "mtp.safetensors"
    tensors = load_file(path) | ({} if tensor is None else {name: tensor})
    if tensor is None:
        del tensors[name]
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=message):
        open_pair(tmp_path, Proposer.MTP)


def test_draft_without_a_draft_model(llama: Path) -> None:
    with pytest.raises(CheckpointError, match="needs a --draft-model"):
        plan(llama, Proposer.DRAFT)


def test_a_draft_model_of_another_vocabulary(tmp_path: Path, llama: Path) -> None:
    FAMILIES["smollm"](tmp_path)
    backend = Backend.from_file(str(tmp_path / "tokenizer.json"))
    backend.add_special_tokens([AddedToken("<|fim|>", special=True)])
    backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(CheckpointError, match=r"'<\|fim\|>' is 260 there and absent here"):
        plan(llama, Proposer.DRAFT, draft=tmp_path)
    with pytest.raises(CheckpointError, match="another vocabulary"):
        plan(resolve_model(None), Proposer.DRAFT, draft=llama)


def test_a_draft_model_without_a_tokenizer_uses_the_targets(tmp_path: Path, llama: Path) -> None:
    FAMILIES["smollm"](tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert plan(llama, Proposer.DRAFT, draft=tmp_path).proposer is Proposer.DRAFT
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json, .* vocabulary has 260 tokens where .* has 4096"):
        plan(resolve_model(None), Proposer.DRAFT, draft=tmp_path)


def test_a_draft_model_of_a_shorter_context(tmp_path: Path, llama: Path) -> None:
    FAMILIES["smollm"](tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 128}))
    with pytest.raises(CheckpointError, match=r"128 tokens, is shorter than the target's, 256; --context 128 would"):
        plan(llama, Proposer.DRAFT, draft=tmp_path)
    assert plan(llama, Proposer.DRAFT, draft=tmp_path, context=128).proposer is Proposer.DRAFT


# --- MiMo ---------------------------------------------------------------------------------------------------------


def test_mimo_is_qwen2_and_its_modules_are_passed_over(tmp_path: Path) -> None:
    """Only the first of two modules is read, and neither where nobody drafts with them."""
    reference = write_mimo(tmp_path, modules=2)
    prompt = random_tokens(20, below=256, seed=3)
    output = generate(open_transformer(tmp_path), [Running(0, prompt)], 12)[0]
    with torch.inference_mode():
        logits = reference.target(torch.tensor([prompt + output[:-1]])).logits[0]
    assert output == logits[len(prompt) - 1 :].argmax(-1).tolist()

    seen: list[tuple[int, int]] = []
    checkpoint = open_checkpoint(tmp_path)
    load_weights(checkpoint, device=CPU, dtype=torch.float32, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (sum(p.nbytes for p in reference.target.parameters()),) * 2

    target, module = open_pair(tmp_path, Proposer.MTP)
    sequence = Speculating(0, prompt, Proposer.MTP, most=3)
    assert speculate(target, module, [sequence], 12) == [output]


# --- Qwen ---------------------------------------------------------------------------------------------------------


def with_tensor(folder: Path, name: str) -> None:
    """Write a further tensor into the weights."""
    path = folder / "model.safetensors"
    save_file(load_file(path) | {name: torch.zeros(1)}, path)


def test_of_qwens_module_the_first_layer_is_read(tmp_path: Path) -> None:
    write_qwen3_5(tmp_path)
    with_tensor(tmp_path, "mtp.layers.1.input_layernorm.weight")
    _, module = open_pair(tmp_path, Proposer.MTP)
    assert module is not None


def test_qwens_module_with_an_embedding_of_its_own_is_refused(tmp_path: Path) -> None:
    write_qwen3_5(tmp_path)
    with_tensor(tmp_path, "mtp.embed_tokens.weight")
    open_pair(tmp_path, Proposer.OFF)
    with pytest.raises(CheckpointError, match=r"mtp\.embed_tokens\.weight belongs to no part"):
        open_pair(tmp_path, Proposer.MTP)


# --- Nemotron -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["layers.0.mixer.conv1d.weight", "layers.1.mixer.gate_proj.weight", "layers.1.hnorm"])
def test_nemotrons_module_with_a_part_that_is_not_known_is_refused(tmp_path: Path, name: str) -> None:
    write_nemotron(tmp_path)
    with_tensor(tmp_path, "mtp.layers.2.norm.weight")  # of a further module
    assert plan(tmp_path).proposer is Proposer.MTP
    with_tensor(tmp_path, f"mtp.{name}")
    open_pair(tmp_path, Proposer.OFF)
    with pytest.raises(CheckpointError, match="belongs to no part"):
        open_pair(tmp_path, Proposer.MTP)


# --- Gemma 4 ------------------------------------------------------------------------------------------------------


def test_a_drafter_that_reads_the_targets_kv_is_known_by_its_architecture(tmp_path: Path, llama: Path) -> None:
    target, assistant = tmp_path / "target", tmp_path / "assistant"
    write_gemma4(target, assistant)
    for asked in (None, Proposer.ASSISTANT):
        assert plan(target, asked, draft=assistant).proposer is Proposer.ASSISTANT
    with pytest.raises(CheckpointError, match="Gemma4AssistantForCausalLM drafts with --speculate assistant"):
        plan(target, Proposer.DRAFT, draft=assistant)
    with pytest.raises(CheckpointError, match="Gemma4ForCausalLM drafts with --speculate draft"):
        plan(target, Proposer.ASSISTANT, draft=target)
    with pytest.raises(CheckpointError, match="needs a --draft-model"):
        plan(target, Proposer.ASSISTANT)
    with pytest.raises(CheckpointError, match="does not go with this target: layer 0 has a window of 16, and none"):
        plan(llama, draft=assistant)
    with pytest.raises(CheckpointError, match="only drafts for another model"):
        describe_model(LoadOptions(assistant, slots=1), "assistant")


def test_what_a_drafter_that_reads_the_targets_kv_takes_is_known_before(tmp_path: Path) -> None:
    target, assistant = tmp_path / "target", tmp_path / "assistant"
    write_gemma4(target, assistant)
    foreseen = plan(target, draft=assistant).memory(CPU, torch.float32)
    _, drafter = open_pair(target, Proposer.ASSISTANT, draft=assistant, slots=3, context=128)
    assert drafter is not None
    assert drafter.states is not None
    assert foreseen.per_token * 3 * 128 == drafter.states.nbytes
    assert drafter.kv.nbytes == 0
    tensors = load_file(assistant / "model.safetensors")
    projections = sum(tensor.nbytes for name, tensor in tensors.items() if "projection" in name)
    assert foreseen.weights == drafter.weights.nbytes + projections


def test_a_drafter_for_a_target_of_other_sizes_is_refused(tmp_path: Path) -> None:
    target, assistant = tmp_path / "target", tmp_path / "assistant"
    write_gemma4(target, assistant, head_dim=32)
    with pytest.raises(
        CheckpointError, match=r"layer 0 reads KV of the shape \(2, 2, 32\), and the target's is \(2, 2, 16\)"
    ):
        plan(target, draft=assistant)
    write_gemma4(target, assistant)
    path, name = assistant / "model.safetensors", "pre_projection.weight"
    tensors = load_file(path)
    save_file(tensors | {name: tensors[name][:, 1:].contiguous()}, path)
    with pytest.raises(
        CheckpointError, match=r"pre_projection\.weight is \[48, 127\], config\.json makes it \[48, 128\]"
    ):
        open_pair(target, Proposer.ASSISTANT, draft=assistant)


# --- draft models of another size ---------------------------------------------------------------------------------

PADDED = VOCAB_SIZE + 40


def write_llama(folder: Path, vocab_size: int) -> Path:
    write_checkpoint(folder, LlamaForCausalLM, LlamaConfig, seed=21, vocab_size=vocab_size, num_hidden_layers=1)
    return folder


@pytest.mark.parametrize(("target_size", "draft_size"), [(PADDED, VOCAB_SIZE), (VOCAB_SIZE, PADDED)])
def test_matrices_may_be_padded_differently(tmp_path: Path, target_size: int, draft_size: int) -> None:
    folder, draft = write_llama(tmp_path / "target", target_size), write_llama(tmp_path / "draft", draft_size)
    target, drafter = open_pair(folder, Proposer.DRAFT, draft=draft)
    assert drafter is not None
    # An id that only the target has is in the prompt: clients may send any.
    prompt = [*random_tokens(20, below=256, seed=4), target_size - 1]
    spec = SampleSpec(SamplingParams(seed=1), position=len(prompt), generated=0, for_rejection=True)
    (result,) = run(drafter, [Segment(3, 0, prompt, sample=spec)]).segments
    assert result.computed
    assert result.tokens[0].distribution is not None
    assert result.tokens[0].distribution.shape == (target_size,)
    assert not result.tokens[0].distribution[VOCAB_SIZE:].any() or draft_size > target_size

    plain = generate(open_transformer(folder), [Running(0, prompt)], 16)[0]
    sequence = Speculating(0, prompt, Proposer.DRAFT, most=4)
    assert speculate(target, drafter, [sequence], 16) == [plain]


def test_a_draft_model_with_recurrent_layers_is_refused(tmp_path: Path, llama: Path) -> None:
    FAMILIES["lfm2"](tmp_path)
    with pytest.raises(CheckpointError, match="a draft model with recurrent layers is not supported"):
        plan(llama, Proposer.DRAFT, draft=tmp_path)


# --- memory -------------------------------------------------------------------------------------------------------


def test_what_a_drafter_takes_is_known_before(tmp_path: Path, llama: Path, smollm: Path) -> None:
    slots, context = 3, 128
    write_deepseek(tmp_path)
    for folder, asked, draft in ((tmp_path, Proposer.MTP, None), (llama, Proposer.DRAFT, smollm)):
        foreseen = plan(folder, asked, draft=draft).memory(CPU, torch.float32)
        _, drafter = open_pair(folder, asked, draft=draft, slots=slots, context=context)
        assert drafter is not None
        states = 0 if drafter.states is None else drafter.states.nbytes
        assert foreseen.per_token * slots * context == drafter.kv.nbytes + states
    assert plan(tmp_path, Proposer.MTP).memory(CPU, torch.float32).weights == _bytes(tmp_path / "mtp.safetensors")
    assert drafter is not None
    assert foreseen.weights == drafter.weights.nbytes  # of the last one, the draft model


def _bytes(path: Path) -> int:
    return sum(tensor.nbytes for tensor in load_file(path).values())


def test_the_context_leaves_room_for_the_drafter(llama: Path, smollm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = LoadOptions(llama, slots=2, device="cpu", dtype="float32", draft=smollm, speculate=Proposer.DRAFT)
    checkpoint = open_checkpoint(llama)
    drafter = plan_drafter(options, checkpoint, Tokenizer.load(checkpoint))
    takes = drafter.memory(CPU, torch.float32)
    enough = 128 * 2 * kv_bytes_per_token(checkpoint.config, torch.float32) / loading.KV_SHARE + 1

    monkeypatch.setattr(loading, "free_memory", lambda device: int(enough))
    assert load_model(options, checkpoint).context == 128
    monkeypatch.setattr(loading, "free_memory", lambda device: int(enough) + takes.weights)
    assert load_model(options, checkpoint, drafter).context == 64  # and what is left does not make a whole step
    monkeypatch.setattr(loading, "free_memory", lambda device: takes.weights)
    with pytest.raises(CheckpointError, match="not enough memory"):
        load_model(options, checkpoint, drafter)


def test_drafters_compute_in_the_dtype_asked_for(tmp_path: Path, llama: Path, smollm: Path) -> None:
    write_deepseek(tmp_path)
    for folder, asked, draft in ((tmp_path, Proposer.MTP, None), (llama, Proposer.DRAFT, smollm)):
        target, drafter = open_pair(folder, asked, draft=draft, dtype="bfloat16")
        assert drafter is not None
        assert {target.kv.dtype, drafter.kv.dtype, drafter.weights.embedding.dtype} == {torch.bfloat16}
        sequence = Speculating(0, random_tokens(9, below=256, seed=1), asked, most=2)
        assert len(speculate(target, drafter, [sequence], 6)[0]) == 6
