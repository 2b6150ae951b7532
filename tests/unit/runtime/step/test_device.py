"""Device and dtype, how much memory, and that the host never runs far ahead of a device that queues."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace

import pytest
import torch

from runtime.errors import CheckpointError
from runtime.step.device import (
    MAX_LAYERS_AHEAD,
    RunAhead,
    free_memory,
    select_device,
    select_dtype,
    settle_kernels,
)

CPU, MPS, CUDA = torch.device("cpu"), torch.device("mps"), torch.device("cuda")


def _only(monkeypatch: pytest.MonkeyPatch, available: Iterable[str]) -> None:
    for name, module in (("mps", torch.backends.mps), ("cuda", torch.cuda)):
        monkeypatch.setattr(module, "is_available", lambda there=name in available: there)


@pytest.mark.parametrize(
    ("available", "chosen"), [((), "cpu"), (("cuda",), "cuda"), (("mps",), "mps"), (("mps", "cuda"), "mps")]
)
def test_auto_takes_the_first_that_is_there(
    available: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only(monkeypatch, available)
    assert select_device("auto") == torch.device(chosen)


@pytest.mark.parametrize("name", ["mps", "cuda"])
def test_a_named_device_is_taken_or_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _only(monkeypatch, [name])
    assert select_device(name) == torch.device(name)
    assert select_device("cpu") == CPU
    _only(monkeypatch, {"mps", "cuda"} - {name})
    with pytest.raises(CheckpointError, match=f"'{name}' is not available"):
        select_device(name)


@pytest.mark.parametrize(
    ("device", "fast_bfloat16", "checkpoint", "chosen"),
    [
        (MPS, False, "bfloat16", torch.bfloat16),
        (MPS, False, "float16", torch.float16),
        (CUDA, False, "float32", torch.float32),
        (CUDA, False, None, torch.bfloat16),
        (CPU, True, "bfloat16", torch.bfloat16),
        (CPU, True, "float32", torch.float32),
        (CPU, True, None, torch.bfloat16),
        (CPU, False, "bfloat16", torch.float32),
        (CPU, True, "float16", torch.bfloat16),
        (CPU, False, "float16", torch.float32),
        (CPU, False, None, torch.float32),
    ],
    ids=str,
)
def test_auto_dtype(
    device: torch.device,
    fast_bfloat16: bool,
    checkpoint: str | None,
    chosen: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: fast_bfloat16)
    assert select_dtype("auto", device, checkpoint) is chosen


def test_where_onednn_is_missing_it_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of PyTorch without it has no such operation to ask."""
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    monkeypatch.delattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported")
    assert select_dtype("auto", CPU, "bfloat16") is torch.float32


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_a_named_dtype_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert select_dtype(name, CPU, "float32") is getattr(torch, name)


# --- memory -------------------------------------------------------------------------------------------------------


def test_free_memory_of_an_accelerator_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5, 9))
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 11)
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 4)
    assert (free_memory(CUDA), free_memory(MPS)) == (5, 7)


def test_free_memory_of_the_cpu_is_the_host_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.step.device.available_memory", lambda: 6)
    assert free_memory(CPU) == 6


# --- running ahead ------------------------------------------------------------------------------------------------


class Queue:
    """A device that finishes a layer only when somebody waits for its event."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.created = 0
        self.unfinished: list[int] = []
        self.most_unfinished = 0

    def new_event(self) -> Event:
        """Return an event of the next layer."""
        self.created += 1
        return Event(self, self.created - 1)


class Event:
    """As `torch.mps.Event`."""

    def __init__(self, queue: Queue, layer: int) -> None:
        self._queue, self._layer = queue, layer

    def record(self) -> None:
        """Put the layer into the queue."""
        self._queue.unfinished.append(self._layer)
        self._queue.most_unfinished = max(self._queue.most_unfinished, len(self._queue.unfinished))

    def synchronize(self) -> None:
        """Wait for the layer and those before it."""
        self._queue.log.append(f"wait {self._layer}")
        while self._queue.unfinished and self._queue.unfinished[0] <= self._layer:
            self._queue.unfinished.pop(0)


@pytest.fixture(params=["mps", "cuda"])
def ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[RunAhead, Queue]:
    queue = Queue()
    module = SimpleNamespace(Event=queue.new_event)
    monkeypatch.setattr(torch, "get_device_module", lambda device: {request.param: module}[device.type])
    return RunAhead(torch.device(request.param)), queue


def test_never_more_than_two_layers_ahead(ahead: tuple[RunAhead, Queue]) -> None:
    run_ahead, queue = ahead
    for layer in range(50):
        left = run_ahead.layer_encoded()
        assert left == run_ahead.unfinished == len(queue.unfinished) == min(layer + 1, MAX_LAYERS_AHEAD)
    assert queue.log == [f"wait {layer}" for layer in range(50 - MAX_LAYERS_AHEAD)]
    assert queue.most_unfinished == MAX_LAYERS_AHEAD + 1  # while it waits, before the next may be encoded


def test_draining_waits_for_all(ahead: tuple[RunAhead, Queue]) -> None:
    run_ahead, queue = ahead
    for _ in range(3):
        run_ahead.layer_encoded()
    run_ahead.drain()
    assert queue.unfinished == []
    waits = list(queue.log)
    run_ahead.drain()
    assert queue.log == waits
    assert run_ahead.layer_encoded() == 1


def test_the_cpu_is_never_waited_for() -> None:
    run_ahead = RunAhead(CPU)
    assert [run_ahead.layer_encoded() for _ in range(5)] == [0] * 5
    run_ahead.drain()


@pytest.mark.parametrize("device", [MPS, CUDA], ids=str)
def test_the_events_of_torch_are_such(device: torch.device) -> None:
    event = torch.get_device_module(device).Event
    assert callable(event.record)
    assert callable(event.synchronize)


def test_cudnns_attention_is_left_alone_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[bool] = []
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", set_to.append)
    settle_kernels(CPU)
    settle_kernels(MPS)
    assert not set_to
    settle_kernels(CUDA)
    assert set_to == [False]
