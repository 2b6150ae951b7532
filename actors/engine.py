"""The engine: everything behind the web layer, as one `async with`.

Inside `async with open_engine(executor, model, config) as engine`, a request is
`async with engine.open_request(asked) as request`, and its events are `async for event in request`.
"""

from __future__ import annotations

import math
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from actors.core.events import Refused
from actors.core.hold import Rank
from actors.core.places.state_pool import least_buffers
from actors.core.receipts import CancelReason, Receipt
from actors.core.slots import SlotTable
from actors.generating.assembly import Assembly
from actors.generating.attended import attended
from actors.generating.grammars import InlineGrammars, compiler_of
from actors.generating.unread import Unread
from actors.groups.member import make_tickets
from actors.groups.request_groups import RequestGroups
from actors.kv.prefix_cache import empty_cache
from actors.kv.prompts import chains, check_length, most_tokens
from actors.manager.slot_manager import SlotManager
from actors.manager.statistics import EngineStatistics, speculation_statistics
from actors.request import Request
from actors.scheduling.planner import ChunkLimits
from actors.spare_time import end_warm_requests
from runtime.errors import CedeError, RequestError, ShuttingDown
from runtime.kv.blocks import owner_root

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from actors.config import EngineConfig
    from actors.core.generation import GenerationRequest, LiveRequest
    from actors.core.observer import Observer
    from actors.core.slot_views import SlotStatus
    from actors.generating.grammars import Compiled, Grammars
    from actors.groups.member import Member
    from actors.kv.prefix_cache import PrefixCache
    from actors.scheduling.costs import StepCosts
    from runtime.grammar.worker import MaskComputer
    from runtime.kv.blocks import BlockKey
    from runtime.kv.token_chain import TokenChain
    from runtime.loading.served import ServedModel
    from runtime.step.executor import Executor


def _check_states(model: ServedModel, config: EngineConfig, cache: PrefixCache) -> None:
    if model.state_buffers:
        least = least_buffers(config.slots)
        assert model.state_buffers >= least, f"{model.state_buffers} buffers for states, and {least} are needed"
        assert cache.tiers.has_states or not cache.tiers.keep_anything, "blocks outside the slots have no states"


def _retained_places(model: ServedModel, config: EngineConfig) -> int:
    """Return how many sequences may stay in place when preempted; the state of each has a buffer besides a step's."""
    if config.preemption != "on" or model.rings is not None:
        return 0
    spare = model.state_buffers - least_buffers(config.slots)
    return min(config.slots, spare) if model.state_buffers else config.slots


def client_disconnect() -> CancelReason:
    """Return what a cancel from outside a request means, unless the opener knows better."""
    return CancelReason.DISCONNECT


class Engine:
    """Admits requests and lets people look in; `groups` are those that belong together.  Made by `open_engine`."""

    def __init__(
        self,
        executor: Executor,
        model: ServedModel,
        config: EngineConfig,
        cache: PrefixCache,
        grammars: Grammars,
        masks: MaskComputer,
    ) -> None:
        self.model = model
        self.config = config
        _check_states(model, config, cache)
        table = SlotTable(
            config.slots,
            model.context_length,
            retained_places=_retained_places(model, config),
            positions=model.positions,
            root=cache.root,
            proposer=config.speculate,
            rings=model.rings,
            state_buffers=model.state_buffers,
            owner=cache.owner,
        )
        self._manager = SlotManager(
            executor,
            table,
            cache,
            ChunkLimits(config.chunk_tokens, config.step_seconds),
            burst_seconds=config.burst_seconds,
            queue_limit=config.queue,
            ageing=config.ageing_seconds,
            preemption=config.preemption == "on",
            position_bytes=model.position_bytes,
        )
        self.groups = RequestGroups()
        self.unread = Unread(config.unread_bytes, config.answer_bytes)
        self._assembly = Assembly(model, config, self._manager.costs, masks)
        self._grammars = grammars
        self._live: dict[str, Request] = {}
        self._served = 0
        self._all_ended = trio.Event()
        self._closing = False

    @property
    def most_generations(self) -> int:
        """Return how many one request can have: as many as the slots and the queue hold."""
        return self.config.slots + self.config.queue

    # --- requests -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open_request(
        self, asked: GenerationRequest, *, disconnect_reason: Callable[[], CancelReason] = client_disconnect
    ) -> AsyncIterator[Request]:
        """Admit a request and run its actors while the scope lasts; leaving it early cancels them.

        Args:
            asked: validated by the caller, but for its length.
            disconnect_reason: asked when a cancel came from outside the request.

        Raises:
            RequestError: a prompt is empty or leaves no room in the context, or there are more of them than slots and
                queue could ever hold; its grammar cannot be used; `after` names nobody; or a related request ended it
                meanwhile.
            QueueFull: too many wait already.
            DeadlineExceeded: its deadline cannot be met, however soon it is served.
            ShuttingDown: admission is closed.
            DeviceLost: no step can run now.
        """
        with attended(asked, self._manager.observers), ExitStack() as groups:
            request = await self._let_in(asked, groups, disconnect_reason)
            try:
                # Opening a nursery is no checkpoint: from the places in the queue to the actors that wait there, no
                # cancel can come between.
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(request.run)
                    yield request
                    request.cancel(CancelReason.DISCONNECT)  # without effect on one that has ended
            finally:
                self._let_go(request)
                self._served += 1
                request.log_end()

    async def _let_in(
        self, asked: GenerationRequest, groups: ExitStack, disconnect_reason: Callable[[], CancelReason]
    ) -> Request:
        """Admit a request, or say that it was refused; in `groups` it is among the requests related to it."""
        try:
            self._check(asked)
            member = groups.enter_context(self.groups.joined(asked.id, asked.owner, asked.control))
            prompts = await chains(self._root_of(asked), asked.prompts)
            grammar = None if asked.grammar is None else await self._grammars.compile(asked.grammar)
            return await self._admit(asked, prompts, grammar, member, disconnect_reason)
        except CedeError as error:
            if (observers := self._manager.observers).refused:
                observers.tell(observers.refused, Refused(asked.id, len(asked.prompts), error))
            raise

    def _root_of(self, asked: GenerationRequest) -> BlockKey:
        """Return what a request's blocks hang from: nobody else's do where owners are isolated."""
        root = self._manager.cache.root
        if asked.owner is None or not self.config.isolate_owners:
            return root
        return owner_root(root, asked.owner)

    def _check(self, asked: GenerationRequest) -> None:
        self._check_open()
        if len(asked.prompts) > self.most_generations:
            raise RequestError(
                f"{len(asked.prompts)} generations in one request; at most {self.most_generations} are possible here"
            )
        for prompt in asked.prompts:
            check_length(prompt, self.model.context_length)

    def _check_open(self) -> None:
        if self._closing:
            raise ShuttingDown("the server is shutting down")

    async def _admit(
        self,
        asked: GenerationRequest,
        prompts: Sequence[TokenChain],
        grammar: Compiled | None,
        member: Member,
        disconnect_reason: Callable[[], CancelReason],
    ) -> Request:
        self._check_open()
        if asked.id in self._live:
            raise RequestError(f"request id {asked.id!r} is in use")
        handle = self._manager.handle
        timeout = self.config.request_timeout if asked.timeout is None else asked.timeout
        deadline = math.inf if timeout is None else trio.current_time() + timeout
        rank = Rank(asked.priority, asked.weight, asked.max_tokens, deadline)
        reserved = partial(most_tokens, wanted=asked.max_tokens, context=self.model.context_length)
        tickets = make_tickets(handle, asked, prompts, rank, member, reserved)
        request = Request(
            asked,
            tickets,
            self._assembly.outputs(asked, grammar),
            lambda: self._assembly.drafting(asked),
            handle,
            self.unread.backlog(f"request {asked.id}", request_id=asked.id),
            deadline=deadline,
            queue_timeout=self.config.queue_timeout,
            disconnect_reason=disconnect_reason,
            log=self._assembly.log(asked),
            finish=member.finish,
        )
        member.admit([ticket.place for ticket in tickets], request.cancel)
        if not self._live:  # else somebody may wait for the event that there is
            self._all_ended = trio.Event()
        end_warm_requests(request, self._live.values())
        self._live[asked.id] = request
        try:
            await handle.enqueue(tickets)
        except BaseException:
            self._let_go(request)
            raise
        return request

    def _let_go(self, request: Request) -> None:
        """A request lives no longer."""
        request.backlog.close()
        del self._live[request.id]
        request.ended.set()
        if not self._live:
            self._all_ended.set()

    def cancel(self, request_id: str, reason: CancelReason = CancelReason.OPERATOR) -> bool:
        """Cancel exactly that request; its client is told.  False if no such request lives."""
        request = self._live.get(request_id)
        if request is not None:
            request.cancel(reason)
        return request is not None

    # --- shutdown -----------------------------------------------------------------------------------------------------

    def close_admission(self) -> None:
        """Refuse new requests from now on."""
        self._closing = True

    async def drain(self, grace: float) -> None:
        """Close admission, let the live requests finish within `grace` seconds, and cancel the rest."""
        self.close_admission()
        with trio.move_on_after(grace):
            await self.wait_all_ended()
        for request in list(self._live.values()):
            request.cancel(CancelReason.SHUTDOWN)

    async def wait_all_ended(self) -> None:
        """Return once no request lives."""
        if self._live:
            await self._all_ended.wait()

    async def wait_ended(self, request_id: str) -> None:
        """Return once that request lives no more; then its receipts are there."""
        if (request := self._live.get(request_id)) is not None:
            await request.ended.wait()

    def observed_by(self, *observers: Observer) -> AbstractContextManager[None]:
        """Tell these what happens, until the scope ends."""
        return self._manager.observers.including(*observers)

    # --- looking in ---------------------------------------------------------------------------------------------------

    @property
    def manager(self) -> SlotManager:
        """The slot manager, to be looked at."""
        return self._manager

    def requests(self) -> list[LiveRequest]:
        """The live requests, oldest first."""
        return [request.status() for request in self._live.values()]

    @property
    def costs(self) -> StepCosts:
        """Cost of steps on this device, as learnt so far; to be read only."""
        return self._manager.costs

    def slots(self) -> Iterator[SlotStatus]:
        """Every slot, each as it is when its turn comes."""
        return self._manager.slots()

    def receipts(self, limit: int | None = None) -> list[Receipt]:
        """The newest receipts, newest first; by default all that are remembered."""
        return self._manager.receipts.newest(limit)

    @property
    def served(self) -> int:
        """Requests that were admitted and have ended, whichever way."""
        return self._served

    def health(self) -> str | None:
        """None while requests can be served, else the reason why not."""
        if self._manager.lost is not None:
            return self._manager.lost
        return "shutting down" if self._closing else None

    def statistics(self) -> EngineStatistics:
        """Counts since the start, and what is held now."""
        speculation = speculation_statistics(self.config.speculate, self._manager.counts)
        return EngineStatistics(len(self._live), self._manager.statistics(), speculation, self.unread.statistics())

    def check_integrity(self) -> None:
        """Raise AssertionError if the engine's records contradict one another."""
        self._manager.check_integrity()
        self.unread.check_integrity()


@asynccontextmanager
async def open_engine(
    executor: Executor,
    model: ServedModel,
    config: EngineConfig,
    cache: PrefixCache | None = None,
    grammars: Grammars | None = None,
) -> AsyncIterator[Engine]:
    """An engine whose slot manager runs while the scope lasts.

    Without a cache, only KV in the slots is reused; without grammars that have threads, what a grammar asks for is
    computed where it is asked for.

    Requests are opened inside that scope, so they have ended before it does.  The manager is shielded from a cancel of
    the whole: holds that unwind in the body still need its word.
    """
    grammars = grammars or InlineGrammars(compiler_of(model))
    with grammars.masks() as masks:
        async with _run(Engine(executor, model, config, cache or empty_cache(), grammars, masks)) as engine:
            yield engine


@asynccontextmanager
async def _run(engine: Engine) -> AsyncIterator[Engine]:
    async with trio.open_nursery() as services:
        manager_scope = trio.CancelScope(shield=True)

        async def run_manager() -> None:
            with manager_scope:
                await engine.manager.run()

        services.start_soon(run_manager)
        try:
            yield engine
        finally:
            engine.close_admission()
            with trio.CancelScope(shield=True):
                await engine.wait_all_ended()
            manager_scope.cancel()
