"""Fused weights against the tensors of the files, and every refusal naming its culprit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from runtime.checkpoint.config import ModelConfig
from runtime.checkpoint.families.norms import LLAMA, Norms
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError
from runtime.nn.layers.decoder_layer import DecoderLayer
from runtime.nn.layers.experts import MixtureOfExperts
from runtime.nn.layers.mlp import GatedMlp
from runtime.nn.layers.router import Router
from runtime.nn.layers.self_attention import SelfAttention
from runtime.nn.matrices.embedding import PlainEmbedding
from runtime.nn.weights import Weights, load_weights, random_weights
from tests.models.checkpoints import FAMILIES
from tests.models.families.hybrid import HYBRID_FAMILIES


def _load(folder: Path, dtype: torch.dtype = torch.float32) -> Weights:
    return load_weights(open_checkpoint(folder), device="cpu", dtype=dtype)


def _plain(weights: Weights) -> Tensor:
    """The embedding."""
    assert isinstance(weights.embedding, PlainEmbedding)
    return weights.embedding.weight


def _tensors(weights: Weights) -> Iterator[tuple[str, Tensor]]:
    yield "embedding", _plain(weights)
    for index, layer in enumerate(weights.layers):
        assert isinstance(layer.attention, SelfAttention)
        linears = [layer.attention.qkv, layer.attention.output]
        linears += [linear for _, mlp in _mlps(layer) for linear in (mlp.gate_up, mlp.down)]
        yield from ((f"{index}.norm.{name}", weight) for name, weight in _norms(layer))
        for i, linear in enumerate(linears):
            yield f"{index}.linear.{i}.weight", linear.weight
            if linear.bias is not None:
                yield f"{index}.linear.{i}.bias", linear.bias
    assert weights.final_norm.weight is not None
    yield "final_norm", weights.final_norm.weight
    yield "lm_head", weights.lm_head.weight


def _assert_equal(first: Weights, second: Weights) -> None:
    for (name, mine), (other_name, other) in zip(_tensors(first), _tensors(second), strict=True):
        assert name == other_name
        assert torch.equal(mine, other), name


def _norms(layer: DecoderLayer, norms: Norms = LLAMA) -> Iterator[tuple[str, Tensor]]:
    """A layer's norms, by their names in the file."""
    for name, norm in (
        (norms.before_attention, layer.before_attention),
        (norms.after_attention, layer.after_attention),
        (norms.before_mlp, layer.before_mlp),
        (norms.after_mlp, layer.after_mlp),
    ):
        assert (name is None) == (norm.weight is None)
        if name is not None and norm.weight is not None:
            yield name, norm.weight
    assert isinstance(layer.attention, SelfAttention)
    if layer.attention.query_key_norm is not None:
        yield from zip(("self_attn.q_norm", "self_attn.k_norm"), layer.attention.query_key_norm.weights, strict=True)


def _mlps(layer: DecoderLayer) -> list[tuple[str, GatedMlp]]:
    """A layer's MLP, or those of its experts, by their names."""
    if isinstance(layer.mlp, GatedMlp):
        return [("mlp", layer.mlp)]
    assert isinstance(layer.mlp, MixtureOfExperts)
    named = [*((f"mlp.experts.{i}", expert) for i, expert in enumerate(layer.mlp.experts))]
    named += [] if layer.mlp.shared is None else [("mlp.shared_experts", layer.mlp.shared)]
    return [(name, mlp) for name, mlp in named if isinstance(mlp, GatedMlp)]


def _router(router: Router) -> Iterator[tuple[str, Tensor]]:
    """What a router has, by its names in the file."""
    for name, tensor in (
        ("weight", router.weight),
        ("bias", router.bias),
        ("e_score_correction_bias", router.correction),
    ):
        if tensor is not None:
            yield name, tensor


def _source(folder: Path) -> dict[str, Tensor]:
    """Return what the files hold, under canonical names."""
    return {name: stored.expand() for name, stored in open_checkpoint(folder).tensors().items()}


def _rewrite(folder: Path, **changes: Tensor | None) -> None:
    """Replace tensors of a single-file checkpoint (dots as double underscores), None to remove one."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name, tensor in changes.items():
        if tensor is None:
            del tensors[name.replace("__", ".")]
        else:
            tensors[name.replace("__", ".")] = tensor
    save_file(tensors, path)


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    FAMILIES["llama"](tmp_path)
    return tmp_path


# --- loading ------------------------------------------------------------------------------------------------------


# Those left out have parts that others have not; their tokens are compared with transformers all the same.
OTHERS = ("deepseek", "gemma3n", "gemma4", "glm4-moe-lite", "laguna", "mistral4")


@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if name not in HYBRID_FAMILIES and not name.startswith(OTHERS)]
)
def test_every_tensor_of_the_file_is_in_its_place(family: str, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    weights = _load(tmp_path)
    source = {name: stored.expand() for name, stored in open_checkpoint(tmp_path).tensors().items()}

    def fused(layer: int, module: str, parts: list[str], kind: str) -> Tensor:
        return torch.cat([source.pop(f"model.layers.{layer}.{module}.{part}.{kind}") for part in parts])

    for index, layer in enumerate(weights.layers):
        assert isinstance(layer.attention, SelfAttention)
        qkv, gate_up = ["q_proj", "k_proj", "v_proj"], ["gate_proj", "up_proj"]
        for name, linear, parts in (
            ("self_attn", layer.attention.qkv, qkv),
            ("self_attn", layer.attention.output, ["o_proj"]),
            *((name, mlp.gate_up, gate_up) for name, mlp in _mlps(layer)),
            *((name, mlp.down, ["down_proj"]) for name, mlp in _mlps(layer)),
        ):
            assert torch.equal(linear.weight, fused(index, name, parts, "weight"))
            if linear.bias is not None:
                assert torch.equal(linear.bias, fused(index, name, parts, "bias"))
        for name, weight in _norms(layer, open_checkpoint(tmp_path).config.norms):
            assert torch.equal(weight, source.pop(f"model.layers.{index}.{name}.weight"))
        if isinstance(layer.mlp, MixtureOfExperts):
            for name, tensor in _router(layer.mlp.router):
                assert torch.equal(tensor, source.pop(f"model.layers.{index}.mlp.gate.{name}"))
        if layer.attention.sinks is not None:
            assert torch.equal(layer.attention.sinks, source.pop(f"model.layers.{index}.self_attn.sinks"))

    assert torch.equal(_plain(weights), source.pop("model.embed_tokens.weight"))
    assert weights.final_norm.weight is not None
    assert torch.equal(weights.final_norm.weight, source.pop("model.norm.weight"))
    if open_checkpoint(tmp_path).config.tied_embeddings:
        assert weights.lm_head.weight is _plain(weights)
    else:
        assert torch.equal(weights.lm_head.weight, source.pop("lm_head.weight"))
    assert not source  # nothing in the file was left unread


def test_shards_hold_the_same_weights(tmp_path: Path, llama: Path) -> None:
    sharded = tmp_path / "sharded"
    FAMILIES["llama-sharded"](sharded)
    assert len(list(sharded.glob("*.safetensors"))) > 1
    _assert_equal(_load(sharded), _load(llama))


def test_weights_do_not_live_in_the_file(llama: Path) -> None:
    before = _load(llama)
    path = llama / "model.safetensors"
    path.write_bytes(bytes(path.stat().st_size))  # in place: a mapping of it would see the zeros
    assert _plain(before).abs().sum() > 0


def test_cast_to_the_dtype_asked_for(llama: Path) -> None:
    source = _source(llama)
    weights = _load(llama, torch.bfloat16)
    assert {tensor.dtype for _, tensor in _tensors(weights)} == {torch.bfloat16}
    assert torch.equal(weights.lm_head.weight, source["lm_head.weight"].bfloat16())


@pytest.mark.parametrize("family", ["llama", "llama-sharded", "smollm"])
def test_progress_counts_the_bytes_of_the_files(family: str, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    seen: list[tuple[int, int]] = []
    load_weights(
        open_checkpoint(tmp_path),
        device="cpu",
        dtype=torch.bfloat16,
        progress=lambda done, total: seen.append((done, total)),
    )
    source = _source(tmp_path)
    size = sum(tensor.nbytes for tensor in source.values())
    assert len(seen) == len(source)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (size, size)
    assert {total for _, total in seen} == {size}


def test_a_redundant_head_is_read_past_if_it_is_the_embedding(tmp_path: Path) -> None:
    FAMILIES["smollm"](tmp_path)
    embedding = _source(tmp_path)["model.embed_tokens.weight"]
    _rewrite(tmp_path, lm_head__weight=embedding.clone())
    assert torch.equal(_load(tmp_path).lm_head.weight, embedding)
    _rewrite(tmp_path, lm_head__weight=embedding + 1)
    with pytest.raises(CheckpointError, match=r"lm_head\.weight: differs from model\.embed_tokens\.weight"):
        _load(tmp_path)


def test_old_rotary_buffers_are_read_past(llama: Path) -> None:
    before = _load(llama)
    _rewrite(llama, model__layers__0__self_attn__rotary_emb__inv_freq=torch.zeros(8))
    _assert_equal(_load(llama), before)


def test_modules_behind_the_last_layer_are_passed_over(llama: Path) -> None:
    """DeepSeek-V3's files number them on."""
    before = _load(llama)
    parts = ("eh_proj", "enorm", "shared_head.head", "embed_tokens", "self_attn.q_proj")
    _rewrite(
        llama,
        **{f"model.layers.{i}.{part}.weight".replace(".", "__"): torch.zeros(1) for i in (3, 4) for part in parts},
    )
    _assert_equal(_load(llama), before)
    _rewrite(llama, model__layers__2__eh_proj__weight=torch.zeros(1))
    with pytest.raises(CheckpointError, match=r"model\.layers\.2\.eh_proj\.weight belongs to no part"):
        _load(llama)


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("model.norm.weight", None, r"model\.norm\.weight: is missing"),
        ("model.layers.1.mlp.up_proj.weight", None, r"model\.layers\.1\.mlp\.up_proj\.weight: is missing"),
        ("lm_head.weight", None, r"lm_head\.weight: is missing"),
        ("model.norm.bias", torch.zeros(64), r"model\.safetensors: model\.norm\.bias belongs to no part"),
        ("model.layers.3.mlp.up_proj.weight", torch.zeros(1), r"layers\.3\.mlp\.up_proj\.weight belongs to no"),
        (
            "model.layers.0.self_attn.k_proj.weight",
            torch.zeros(64, 64),
            r"layers\.0\.self_attn\.k_proj\.weight is \[64, 64\], config\.json makes it \[32, 64\]",
        ),
        (
            "model.layers.0.mlp.down_proj.weight",
            torch.zeros(64, 96, dtype=torch.int8),
            r"layers\.0\.mlp\.down_proj\.weight has numbers of the type I8",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals_name_the_tensor(llama: Path, name: str, tensor: Tensor | None, message: str) -> None:
    _rewrite(llama, **{name.replace(".", "__"): tensor})
    with pytest.raises(CheckpointError, match=message):
        _load(llama)


# --- random weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama-bias", "qwen3-tied"])
def test_random_weights_have_the_shapes_of_loaded_ones(family: str, tmp_path: Path) -> None:
    FAMILIES[family](tmp_path)
    config = open_checkpoint(tmp_path).config
    loaded, drawn = _load(tmp_path), random_weights(config, device="cpu", dtype=torch.float32, seed=7)
    assert [(n, t.shape) for n, t in _tensors(drawn)] == [(n, t.shape) for n, t in _tensors(loaded)]
    assert (drawn.lm_head.weight is _plain(drawn)) == config.tied_embeddings


def test_random_weights_follow_the_seed(llama: Path) -> None:
    def draw(config: ModelConfig, seed: int) -> Weights:
        return random_weights(config, device="cpu", dtype=torch.bfloat16, seed=seed)

    config = open_checkpoint(llama).config
    first, same, other = draw(config, 1), draw(config, 1), draw(config, 2)
    _assert_equal(first, same)
    assert not torch.equal(_plain(first), _plain(other))
    norms = {name: tensor for name, tensor in _tensors(first) if "norm" in name}
    assert len(norms) == 7
    assert all(torch.all(weight == 1) for weight in norms.values())
    attention = first.layers[0].attention
    assert isinstance(attention, SelfAttention)
    assert attention.qkv.weight.float().std().item() == pytest.approx(0.02, rel=0.05)
