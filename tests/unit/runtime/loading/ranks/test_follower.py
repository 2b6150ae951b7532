"""A rank other than 0 tells rank 0 whether it has its share, before anything is computed."""

from __future__ import annotations

from multiprocessing import Pipe
from pathlib import Path

import torch

from runtime.devices.parallel.lines import Line
from runtime.devices.parallel.share import Share
from runtime.loading.options import LoadOptions
from runtime.loading.others import NotLoaded, Start
from runtime.loading.ranks.follower import follow
from tests.models.checkpoints import FAMILIES


def test_a_share_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    FAMILIES["llama"](tmp_path)
    (weights,) = tmp_path.glob("*.safetensors")
    weights.write_bytes(weights.read_bytes()[:1000])
    ours, theirs = Pipe()
    line = Line(ours)
    options = LoadOptions(tmp_path, device="cpu", dtype="float32", tensor_parallel=2)
    line.send(Start(options, Share(1, 2), torch.get_num_threads(), tmp_path / "store"))
    follow(Line(theirs))
    answer = line.receive()
    assert isinstance(answer, NotLoaded)
    assert weights.name in answer.why
