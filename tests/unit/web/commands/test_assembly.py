"""From options to what the server is told: each number arrives, and `--slots` at the model and the engine alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.errors import CheckpointError
from runtime.loading.served import Proposer
from runtime.store.resolve import embedded_draft, resolve_model
from tests.rows import every_row
from tests.unit.web.commands.options.choosing import chosen, sample
from web.commands.assembly import server_options
from web.commands.options.definitions import DEFINITIONS, Definition
from web.process.options import Cluster, Diagnostics
from web.serving.server import ServerOptions

# What is a number, of the configs that the server is given as they are; sampling and diagnostics come in other forms.
NUMBERS = [
    definition
    for definition in DEFINITIONS.values()
    if definition.kind in (int, float) and definition.section != "Sampling of requests that do not say"
    if definition.group not in (Diagnostics, Cluster)
    # By the first the model has to be divisible, and the second is bound before there are options.
    if definition.key not in ("tensor-parallel", "port")
]


def configs(options: ServerOptions) -> dict[type, object]:
    """The configs in it, by their classes."""

    def walk(value: object) -> Iterator[object]:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield value
            for field in dataclasses.fields(value):
                yield from walk(getattr(value, field.name))

    return {type(config): config for config in walk(options)}


@every_row("definition", NUMBERS)
def test_a_number_arrives_where_it_is_used(definition: Definition, tmp_path: Path) -> None:
    wanted = sample(definition, tmp_path)
    also = ["--kv-dir", str(tmp_path)] if definition.key == "kv-disk" else []
    given = configs(server_options(chosen([definition.flags[0], *wanted.texts, *also])))
    assert getattr(given[definition.group], definition.field) == wanted.value


def test_a_model_that_cannot_be_divided_is_refused_before_it_is_loaded() -> None:
    assert server_options(chosen(["--tensor-parallel", "2"])).load.tensor_parallel == 2
    with pytest.raises(CheckpointError, match="--tensor-parallel 3: the attention heads of Qwen3ForCausalLM, 4,"):
        server_options(chosen(["--tensor-parallel", "3"]))


def test_model_and_engine_have_the_same_slots() -> None:
    for flags in ([], ["--slots", "3"]):
        options = server_options(chosen(flags))
        assert options.load.slots == options.engine.slots == (3 if flags else 4)


def test_what_comes_in_another_form() -> None:
    flags = ["--watch-loop", "10", "--temperature", "0.5", "--api-key", "a", "--allow-host", "Name", "--host", "::1"]
    options = server_options(chosen(flags))
    assert options.watch_loop == 0.01
    assert (options.sampling.temperature, options.sampling.sources["temperature"]) == (0.5, "operator")
    assert len(options.entrance.keys) == 1
    assert options.entrance.browser_policy.hosts == {"name", "::1"}
    assert options.entrance.tls is None


@pytest.mark.parametrize(
    ("flags", "draft"),
    [([], None), (["--speculate", "draft"], "embedded"), (["--draft-model", "own"], "own")],
)
def test_the_draft_model(flags: list[str], draft: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    load = server_options(chosen(flags)).load
    assert load.path == resolve_model(None)
    expected = {None: None, "embedded": embedded_draft(), "own": resolve_model("own") if draft == "own" else None}
    assert load.draft == expected[draft]


def test_a_draft_model_that_a_stronger_place_has_put_out_of_use_is_not_looked_for(tmp_path: Path) -> None:
    file = tmp_path / "cede.toml"
    file.write_text('draft-model = "nowhere at all"')
    load = server_options(chosen(["--speculate", "off"], config=file)).load
    assert (load.speculate, load.draft) == (Proposer.OFF, None)
