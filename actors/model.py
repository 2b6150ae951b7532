"""A model for whoever embeds cede: open it, ask it for a text or in a chat, and leave when you have enough.

    async with open_model() as model:
        async with model.generate("def add(a, b):", max_tokens=32) as answer:
            async for text in answer:
                print(text, end="")

It is a thin layer over `Engine.open_request`, which takes whatever else a request can say.
"""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from actors.core.generation import Failed, Finished, FinishReason, GenerationRequest, Token
from actors.opening import open_loaded
from runtime.chat.conversation import Conversation
from runtime.chat.parts import PlainParser, ReasoningPart, TextPart
from runtime.errors import RequestError
from runtime.loading.options import LoadOptions
from runtime.sampling.params import SamplingParams
from runtime.store.resolve import resolve_model
from runtime.text.stop_strings import StopAutomaton

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from actors.config import EngineConfig
    from actors.core.generation import Event
    from actors.core.receipts import Receipt
    from actors.engine import Engine
    from actors.kv.config import TierOptions
    from actors.request import Request
    from runtime.chat.conversation import Turn
    from runtime.chat.parts import OutputParser, Part

EMBEDDED = "embedded"
"""The name of the small model that comes with cede."""


class Answer:
    """One answer, as it comes: iterate it for pieces of its text, or `read` all of it.

    Args:
        request: open.
        parser: tells the answer from what the model thinks before it.

    Attributes:
        id: of the request.
        text: what has come of the answer so far.
        thought: likewise, of what the model thinks before it answers.
        tokens: ids, likewise.
        finished: how it ended; None before that, and where it was left early.
        receipt: what its cancel cost, once its scope has ended; None for one that was not cancelled.
    """

    def __init__(self, request: Request, parser: OutputParser) -> None:
        self._events = aiter(request)
        self._parser = parser
        self.id = request.id
        self.text = ""
        self.thought = ""
        self.tokens: list[int] = []
        self.finished: Finished | None = None
        self.receipt: Receipt | None = None

    def __aiter__(self) -> Answer:
        """Be read, piece by piece."""
        return self

    async def __anext__(self) -> str:
        """Return more of the text, once there is more.

        Raises:
            CedeError: the generation has failed.
        """
        while True:
            if text := self._take(await anext(self._events)):
                return text

    async def read(self) -> str:
        """Return the whole text, once it is there.

        Raises:
            CedeError: as in an iteration.
        """
        async for _ in self:
            pass
        return self.text

    def _take(self, event: Event) -> str:
        """Return the text that an event has made certain."""
        match event:
            case Failed(error=error):
                raise error
            case Token():
                self.tokens.append(event.token_id)
                return self._add(self._parser.push(event.text))
            case Finished():
                self.finished = event
                cut = event.reason is not FinishReason.STOP
                return self._add([*self._parser.push(event.text), *self._parser.finish(cut=cut)])
        return ""  # scores of a prompt are not asked for

    def _add(self, parts: Iterable[Part]) -> str:
        said = ""
        for part in parts:
            match part:
                case TextPart(text):
                    said += text
                case ReasoningPart(text):
                    self.thought += text
        self.text += said
        return said


class OpenModel:
    """A model that is open; made by `open_model`, or of any engine.

    Args:
        engine: open.

    Attributes:
        engine: for all that is not here: receipts, statistics, cancels by an id, requests that say more.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def generate(
        self,
        prompt: str | Sequence[int],
        sampling: SamplingParams | None = None,
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        id: str | None = None,
    ) -> AbstractAsyncContextManager[Answer]:
        """Go on with a text while the scope lasts; leaving it early cancels that.

        Args:
            prompt: a text, or token ids.
            sampling: how tokens are drawn; None for the model's own way.
            max_tokens: at most so many; None for as many as fit in the context.
            stop: strings that end the text, and are not part of it.
            ignore_eos: go on where the model would end.
            id: of the request; None for one that nobody else has.

        Raises:
            CedeError: on entering the scope, as `Engine.open_request`.
        """
        ids = self.engine.model.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        asked = GenerationRequest(
            id or uuid.uuid4().hex,
            (tuple(ids),),
            sampling or self._sampling(),
            max_tokens=max_tokens,
            stop=StopAutomaton(stop),
            ignore_eos=ignore_eos,
            continues=True,
        )
        return self._open(asked, PlainParser())

    def chat(
        self,
        turns: Sequence[Turn],
        sampling: SamplingParams | None = None,
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        id: str | None = None,
    ) -> AbstractAsyncContextManager[Answer]:
        """Answer a conversation while the scope lasts; leaving it early cancels that.

        Args:
            turns: what was said.
            sampling: as of `generate`, like the others.
            max_tokens: how many at most.
            stop: what ends the text.
            id: of the request.

        Raises:
            RequestError: the model has no chat template, or that refuses the conversation.
            CedeError: on entering the scope, as `Engine.open_request`.
        """
        model = self.engine.model
        if model.chat is None:
            raise RequestError("this model has no chat template; it can go on with a text")
        prompt = model.chat.prompt(Conversation(turns))
        asked = GenerationRequest(
            id or uuid.uuid4().hex,
            (tuple(model.tokenizer.encode(prompt.text, add_special_tokens=False)),),
            sampling or self._sampling(),
            max_tokens=max_tokens,
            stop=StopAutomaton(stop),
            visible=prompt.visible_ids(model.tokenizer),
            grammar=prompt.grammar,
        )
        return self._open(asked, prompt.parser())

    def _sampling(self) -> SamplingParams:
        return SamplingParams(**self.engine.model.sampling.values())

    @asynccontextmanager
    async def _open(self, asked: GenerationRequest, parser: OutputParser) -> AsyncIterator[Answer]:
        answer: Answer | None = None
        before = self._receipt(asked.id)  # of an earlier request of that id
        try:
            async with self.engine.open_request(asked) as request:
                answer = Answer(request, parser)
                yield answer
        except BaseExceptionGroup as group:  # of the request's nursery, about what was raised in here
            error = group.exceptions[0]
            if len(group.exceptions) > 1 or isinstance(error, trio.Cancelled):
                raise
            context = error.__context__
            try:
                raise error
            finally:
                error.__context__ = context  # its own, and not this group
        finally:
            if answer is not None and (written := self._receipt(asked.id)) is not before:
                answer.receipt = written

    def _receipt(self, request_id: str) -> Receipt | None:
        """Return the newest receipt of a request of that id."""
        return next((receipt for receipt in self.engine.receipts() if receipt.request_id == request_id), None)


@asynccontextmanager
async def open_model(
    model: str | LoadOptions = EMBEDDED, config: EngineConfig | None = None, *, tiers: TierOptions | None = None
) -> AsyncIterator[OpenModel]:
    """Open a model while the scope lasts.

    Args:
        model: what `cede serve` takes: a folder, a GGUF file, `org/name` or a short name, which is downloaded where it
            is not here yet; or `embedded`, the small model that comes with cede.  Options say more.
        config: how the engine shares its device; its slots are those of the options.
        tiers: where KV is kept outside the slots.

    Raises:
        CheckpointError: there is no such model, or it cannot be loaded.
        KVFolderError: the disk tier's folder cannot be used.
    """
    if isinstance(model, LoadOptions):
        load, name = model, model.path.stem if model.path.is_file() else model.path.name
    else:
        path = await trio.to_thread.run_sync(
            resolve_model, None if model == EMBEDDED else model, abandon_on_cancel=True
        )
        load, name = LoadOptions(Path(path)), model
    async with open_loaded(load, name, config, tiers=tiers) as (engine, _):
        yield OpenModel(engine)
