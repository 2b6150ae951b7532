"""Worker of a cluster: a server whose engine is in Dynamo's discovery from when it runs until it is to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import trio

from actors.core.observer import Observer
from actors.manager.block_news import told_of_blocks
from runtime.kv.blocks import BLOCK_TOKENS
from web.cluster.backend import Backend
from web.cluster.card import card_files, kv_blocks, write_card
from web.cluster.control.desk import Desk
from web.cluster.control.feed.teller import Teller
from web.cluster.control.questions import worker_name
from web.cluster.control.succession import Succession, Successors
from web.cluster.guest import from_asyncio
from web.cluster.liveness import Entries, keep_entries, watch_presence
from web.cluster.membership import Membership
from web.cluster.peers import ENDPOINT, Peers, serve_peers
from web.cluster.routing import BlockEvents
from web.cluster.settings import discovery_folder, tell_dynamo
from web.cluster.stall import StallWatch
from web.observability.inspection.feed.feed import Feed
from web.process.hooks import ServerHooks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from actors.core.events import DeviceIsBack, DeviceIsLost
    from actors.engine import Engine
    from runtime.step.step import StepModel
    from web.process.options import Cluster

logger = logging.getLogger("cede.web")

COMPONENT = "backend.generate"
NO_DEVICE, STOPPING = "the device is lost", "the worker stops"
ENDING_SECONDS = 1.0  # in which Dynamo has to let go of a worker whose requests have all ended


@dataclass(frozen=True, slots=True)
class Registered:
    """A worker that front doors know.

    Attributes:
        id: Dynamo's, 16 hex digits.
        membership: whether it is to be found.
    """

    id: str
    membership: Membership


class WorkerHooks(ServerHooks):
    """Brings a server's engine into a cluster.  For a server that runs as a guest of asyncio (`run_as_guest`).

    Args:
        cluster: where it is to be found.
        inner: what the server is fitted with besides.
    """

    def __init__(self, cluster: Cluster, inner: ServerHooks) -> None:
        self._cluster = cluster
        self._inner = inner
        self._registered: Registered | None = None
        self.clock = inner.clock
        self.disk_blocks = inner.disk_blocks

    @property
    def worker_id(self) -> str:
        """Id in discovery, once it is there."""
        assert self._registered is not None
        return self._registered.id

    def model(self, model: StepModel[Any], *, drafting: bool) -> StepModel[Any]:
        """Return what runs the steps of a model that was just loaded."""
        return self._inner.model(model, drafting=drafting)

    @asynccontextmanager
    async def attend(self, engine: Engine) -> AsyncIterator[None]:
        """Serve the engine to front doors; when this ends, all of their requests have ended, or are given up."""
        tell_dynamo(self._cluster, os.environ)  # some of it is read by the import
        from dynamo.llm import KvEventPublisher
        from dynamo.runtime import DistributedRuntime

        loop = asyncio.get_running_loop()
        async with self._inner.attend(engine), trio.open_nursery() as nursery:
            runtime = DistributedRuntime(loop, self._cluster.discovery, "tcp", event_plane="zmq")
            namespace = self._cluster.namespace
            endpoint = runtime.endpoint(f"{namespace}.{COMPONENT}")
            name = worker_name(endpoint.connection_id())
            peers = await from_asyncio(Peers.open(runtime, namespace, but=name))
            succession = Succession()
            desk = Desk(engine, succession)
            teller = Teller(Feed(engine), nursery)
            answering = serve_peers(runtime.endpoint(f"{namespace}.{ENDPOINT}"), nursery, desk, teller)
            card = await trio.to_thread.run_sync(self._write_card, engine, abandon_on_cancel=True)
            await from_asyncio(self._register(engine, endpoint, card))
            client = await from_asyncio(endpoint.client())
            backend = Backend(engine, nursery, Successors(succession, desk, peers, nursery).comes)
            serving = asyncio.ensure_future(endpoint.serve_endpoint(backend.generate, graceful_shutdown=True))
            serving.add_done_callback(given_up)  # Dynamo does so by itself where it has lost its lease in etcd
            membership = Membership(endpoint)
            self._registered = Registered(name, membership)
            logger.info("in discovery as %s", name)
            health = DeviceHealth()
            publisher = KvEventPublisher(endpoint, kv_block_size=BLOCK_TOKENS, enable_local_indexer=True)
            nursery.start_soon(health.follow, membership)
            nursery.start_soon(watch_presence, endpoint.connection_id(), membership, client, stop)
            if self._cluster.discovery == "file":
                entries = Entries(discovery_folder(os.environ), endpoint.connection_id())
                nursery.start_soon(keep_entries, membership, entries)
            try:
                with (
                    engine.observed_by(health),
                    StallWatch(loop, endpoint, membership),
                    told_of_blocks(engine.manager, BlockEvents(engine.manager.cache.root, publisher)),
                ):
                    yield
            finally:
                serving.remove_done_callback(given_up)
                teller.end()
                publisher.shutdown()
                runtime.shutdown()
                await let_go({"requests": serving, "questions": answering})
                nursery.cancel_scope.cancel()

    async def leave(self) -> None:
        """Leave discovery, so that no further requests come."""
        await self._inner.leave()
        assert self._registered is not None
        await self._registered.membership.leave(STOPPING)

    async def _register(self, engine: Engine, endpoint: Any, card: Path) -> None:  # noqa: ANN401  # Dynamo's
        """Tell discovery of the model.  asyncio's."""
        from dynamo.llm import ModelInput, ModelRuntimeConfig, ModelType, WorkerType, register_model

        model = engine.model
        config = ModelRuntimeConfig()
        config.context_length = model.context_length
        config.max_num_seqs = engine.config.slots
        config.enable_local_indexer = True  # a front door that comes later asks the worker for what it has missed
        config.total_kv_blocks = kv_blocks(model, engine.config.slots)
        serves = ModelType.Completions if model.chat is None else ModelType.Chat | ModelType.Completions
        await register_model(
            ModelInput.Tokens,
            serves,
            endpoint,
            str(card),
            self._cluster.model_name or model.name,
            worker_type=WorkerType.Aggregated,
            kv_cache_block_size=BLOCK_TOKENS,
            runtime_config=config,
        )

    def _write_card(self, engine: Engine) -> Path:
        return write_card(card_files(engine.model))


def stop() -> None:
    """Let this process end in good order, as whoever started it would."""
    os.kill(os.getpid(), signal.SIGTERM)


def given_up(serving: asyncio.Future[None]) -> None:
    """Stop, since Dynamo serves the worker's endpoint no longer; the log says what it gave as its reason."""
    reason = "it was cancelled" if serving.cancelled() else serving.exception() or "it gave no reason"
    logger.error("Dynamo serves this worker no longer (%s); it stops, and wants to be started again", reason)
    stop()


async def let_go(serving: Mapping[str, asyncio.Future[None]]) -> None:
    """Wait until Dynamo serves nothing any more, for a time, even amid a cancel; the log names what it still has.

    Where a front door stands still, Dynamo holds what could not be sent to it.

    Args:
        serving: what is done once Dynamo does not serve it any longer, by what it serves.
    """
    with trio.move_on_after(ENDING_SECONDS, shield=True):
        await from_asyncio(asyncio.wait(serving.values()))
    for name, future in serving.items():
        if not future.done():
            logger.error("Dynamo has not let go of %s within %g s; the worker ends all the same", name, ENDING_SECONDS)
        elif not future.cancelled() and (error := future.exception()) is not None:
            logger.error("Dynamo served %s until it failed: %s", name, error)


class DeviceHealth(Observer):
    """Takes the worker out of discovery while its device is lost."""

    def __init__(self) -> None:
        self._lost = False
        self._changed = trio.Event()

    def device_lost(self, event: DeviceIsLost) -> None:
        """No step can run."""
        self._lost = True
        self._changed.set()

    def device_back(self, event: DeviceIsBack) -> None:
        """Steps can run again."""
        self._lost = False
        self._changed.set()

    async def follow(self, membership: Membership) -> None:
        """Follow the device until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await (membership.leave(NO_DEVICE) if self._lost else membership.come_back(NO_DEVICE))
