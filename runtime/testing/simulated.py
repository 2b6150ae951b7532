"""A stand-in for a model whose every output is a function of the exact token history.

Its KV at a position is a hash chained over the tokens up to there, read back from its place in the pool and never
recomputed, and its next token is a function of that hash.  So a stale row, a row of another sequence or a row that was
never committed changes every token after it: what a real model would blur, this one shows.

It may have a layer with a sliding window, too, whose KV lies in a ring: each row there says which history it is of.
A row is right only if all the rows that it sees there are those of the tokens before it, so that a ring that has lost
one of them, or has another's, changes every token as well.  Where nothing is lost, the tokens are those without a ring.

And it may have a recurrent layer, whose state is the same hash, but goes from row to row, and from buffer to buffer,
beside the KV.  A row is right only if the two agree before it: a state that is stale, skipped, doubled or foreign
changes every token, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

from runtime.kv.pages import PAGE_TOKENS, pool_positions
from runtime.loading.served import ServedModel
from runtime.sampling.random_numbers import splitmix64
from runtime.sampling.tokens import SampledToken, TokenLogprobs
from runtime.step.prompt_rows.wanted import NOTHING, Pooling, RowsGiven, TokenScore
from runtime.step.step import SegmentOutput
from runtime.step.transfer import Copy, CopyPage, Load, LoadState, Save, SaveState
from runtime.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runtime.chat.chat import Chat
    from runtime.kv.pages import PageTable
    from runtime.kv.rings import Rings
    from runtime.sampling.tokens import TokenMask
    from runtime.step.step import Segment
    from runtime.step.transfer import Transfer

_ROOT = 0x5EED
_POISON = -1
_LOST = 0x1057  # what a state is changed by where a row is missing that it depends on
STATE_BYTES = 512  # of a state in a tier, most of them zeros: half as many as of a block in the simulation
HIDDEN = 4  # numbers of a hidden state
_SIGN = 1 << 63  # states are unsigned, and torch's integers are not


def chain(state: int, token_id: int) -> int:
    """The KV of a token that follows a row of KV `state`."""
    return splitmix64(state ^ splitmix64(token_id))


def window_row(state: int) -> int:
    """The row of the windowed layer for a token of KV `state`."""
    return splitmix64(state ^ 0x51D1_46)


def hidden_state(state: int) -> tuple[float, ...]:
    """The last hidden state of a token of KV `state`: small whole numbers, so that sums are exact in any order."""
    return tuple(float(state >> shift & 0xFF) for shift in range(0, HIDDEN * 8, 8))


def pack_state(state: int) -> torch.Tensor:
    """Return a state of the recurrent layer as the tiers keep it, uint8 `[STATE_BYTES]`."""
    return torch.tensor(list(state.to_bytes(STATE_BYTES, "little")), dtype=torch.uint8)


def unpack_state(data: torch.Tensor) -> int:
    """Read what `pack_state` made."""
    return int.from_bytes(bytes(data.tolist()), "little")


def _summed(states: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*states, strict=True)))


@dataclass(slots=True)
class SimulatedBatch:
    """The segments still in the step."""

    segments: list[Segment]


class SimulatedModel:
    """A `StepModel` without tensors.

    Args:
        slots: the most sequences that it has.
        context: the most positions of one.
        num_layers: layer boundaries per step, where cancels take effect.
        vocab_size: token ids are below this.
        rings: of two layers, the second with a window; None for a model without one.
        state_buffers: of the recurrent layer; 0 for a model without one.
        positions: of the pool; None for as many as all sequences have at their longest.
    """

    def __init__(
        self,
        *,
        slots: int,
        context: int,
        num_layers: int = 4,
        vocab_size: int = 1000,
        rings: Rings | None = None,
        state_buffers: int = 0,
        positions: int | None = None,
    ) -> None:
        self.slots = slots
        self.context = context
        self.positions = pool_positions(slots, context, positions)
        self.num_layers = num_layers
        self.vocab_size = vocab_size
        self.rings = rings
        self.ring = 0 if rings is None else rings.widest + rings.slack
        self.windows = [[_POISON] * self.ring for _ in range(slots)]
        self.buffers = [_POISON] * state_buffers  # of the recurrent layer
        # By places in the pool.  States are the KV's, but not where that was moved in.
        self.kv = [_POISON] * self.positions
        self.states = [_POISON] * self.positions
        self._next: SimulatedBatch | None = None  # begun before it was known whether it is wanted

    def continuation(
        self, prompt: Sequence[int], tokens: int, draw: Callable[[Sequence[int], int], int] | None = None
    ) -> list[int]:
        """Return what a request alone on a clean server must get: the oracle of the exactness tests.

        Args:
            prompt: token ids.
            tokens: of the output.
            draw: of a grammar: from an output and the token that would follow it, the one that does.
        """
        state = _ROOT
        for token_id in prompt:
            state = chain(state, token_id)
        output: list[int] = []
        while len(output) < tokens:
            token_id = self.next_token(state)
            output.append(token_id if draw is None else draw(output, token_id))
            state = chain(state, output[-1])
        return output

    def begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        """Take the segments in, and spoil the rows that they will write; goes on with what was begun ahead.

        Raises:
            AssertionError: that was something else, and was not dropped.
        """
        following, self._next = self._next, None
        assert following is None or _rows(following.segments) == _rows(segments), "the step begun ahead is another one"
        return self._begin(segments)

    def _begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        # A layer that is cut short leaves half-written rows behind; so does this.
        for segment in segments:
            for place in segment.pages.places(segment.start, segment.end):
                self.kv[place] = _POISON
            self.write_windows(segment.slot, segment.start, [_POISON] * len(segment.token_ids))
            for _, buffer in segment.next_states:
                self.buffers[buffer] = _POISON
        return SimulatedBatch(list(segments))

    def shrink(self, batch: SimulatedBatch, kept: Sequence[int]) -> None:
        """Go on with these segments only."""
        batch.segments = [batch.segments[i] for i in kept]

    def run_layer(self, batch: SimulatedBatch, index: int) -> int:
        """Write the KV in the last layer; nothing is left for the device to finish."""
        if index == self.num_layers - 1:
            for segment in batch.segments:
                self._write(segment)
        return 0

    def abandon(self, batch: SimulatedBatch) -> None:
        """Forget the segments."""
        batch.segments = []

    def finish(self, batch: SimulatedBatch) -> list[SegmentOutput]:
        """Draw what each segment asks for; all is finite."""
        return [
            SegmentOutput(True, tuple(map(SampledToken, self._sample(segment))), self._given(segment))
            for segment in batch.segments
        ]

    def begin_next(self, batch: SimulatedBatch) -> int:
        """Begin the step that follows, and spoil the rows that it will write; none of its layers runs."""
        drawn = [(segment, self._sample(segment)) for segment in batch.segments]
        self._next = self._begin([segment.followed_by(tokens[-1]) for segment, tokens in drawn])
        return 0

    def drop_next(self) -> None:
        """Forget the step that was begun ahead; what it has spoilt stays so."""
        self._next = None

    def transfer(self, transfer: Transfer) -> torch.Tensor | None:
        """Move rows of KV, of which a `Save` gives `[layers, tokens]` of int64, or a state."""
        assert self._next is None, "KV is moved while a step is begun ahead"
        match transfer:
            case Save(slot, start, end, windows, pages):
                layers = [self.rows(pages, start, end)]
                layers += [self.read_windows(slot, start, end)] if windows and self.ring else []
                return torch.tensor([[state - _SIGN for state in rows] for rows in layers])
            case Load(slot, start, data, windows, pages):
                layers = [[state + _SIGN for state in rows] for rows in data.tolist()]
                self.put_rows(pages, start, layers[0])
                if windows and self.ring and len(layers) > 1:
                    self.write_windows(slot, start, layers[1])
            case Copy(source, slot, start, end, least, source_pages, pages):
                self.put_rows(pages, start, self.rows(source_pages, start, end))
                self.copy_windows(source, slot, end, least)
            case CopyPage(_, source, target, rows):
                self.copy_page(source * PAGE_TOKENS, target * PAGE_TOKENS, rows)
            case SaveState(_, buffer):
                return pack_state(self.buffers[buffer])
            case LoadState(_, buffer, data):
                self.buffers[buffer] = unpack_state(data)
        return None

    def rows(self, pages: PageTable, start: int, end: int) -> list[int]:
        """Return the KV at these positions of a sequence."""
        return [self.kv[place] for place in pages.places(start, end)]

    def put_rows(self, pages: PageTable, start: int, rows: Sequence[int]) -> None:
        """Put KV at the positions of a sequence from `start` on."""
        for place, row in zip(pages.places(start, start + len(rows)), rows, strict=True):
            self.kv[place] = row

    def copy_page(self, source: int, target: int, rows: int) -> None:
        """Copy so many rows from one place to another, with the states."""
        for held in (self.kv, self.states):
            held[target : target + rows] = held[source : source + rows]

    # --- the windowed layer -----------------------------------------------------------------------------------------

    def read_windows(self, slot: int, start: int, end: int) -> list[int]:
        """Return what lies in a slot's ring where the rows of these positions belong."""
        return [self.windows[slot][position % self.ring] for position in range(start, end)]

    def write_windows(self, slot: int, start: int, rows: Sequence[int]) -> None:
        """Put rows into a slot's ring, from that position on."""
        if self.ring:
            for position, row in enumerate(rows, start=start):
                self.windows[slot][position % self.ring] = row

    def copy_windows(self, source: int, slot: int, end: int, least: int | None) -> None:
        """Copy what a sequence needs to go on from `least` or any length up to `end`; nothing if that is None."""
        if self.rings is not None and least is not None:
            first = max(0, least - self.rings.widest + 1)
            self.write_windows(slot, first, self.read_windows(source, first, end))

    def lost(self, slot: int, pages: PageTable, first: int, end: int) -> list[int]:
        """The positions, from `first` on, whose rows are not in the ring of a slot that has these positions' KV."""
        if not self.ring:
            return []
        rows = zip(range(first, end), self.read_windows(slot, first, end), self.rows(pages, first, end), strict=True)
        return [position for position, row, whole in rows if row != window_row(whole)]

    # ------------------------------------------------------------------------------------------------------------------

    def _write(self, segment: Segment) -> None:
        pages, rings = segment.pages, self.rings
        state = self.kv[pages.place(segment.start - 1)] if segment.start > segment.first else _ROOT
        recurrent, left = _ROOT if segment.state is None else self.buffers[segment.state], dict(segment.next_states)
        for position, token_id in enumerate(segment.token_ids, start=segment.start):
            is_wrong = bool(self.buffers) and recurrent != state
            state, recurrent = chain(state, token_id), chain(recurrent, token_id)
            if (end := position + 1 - segment.start) in left:
                self.buffers[left[end]] = recurrent
            if is_wrong:
                state ^= _LOST
            if rings is not None and self.lost(segment.slot, pages, rings.first_needed(position), position):
                state ^= _LOST
            place = pages.place(position)
            self.kv[place] = self.states[place] = state
            self.write_windows(segment.slot, position, [window_row(state)])

    def _sample(self, segment: Segment) -> list[int]:
        """The tokens that a segment asks for: the drafts that are right, and the one that follows them."""
        if segment.sample is None:
            return []
        drafts, tokens = segment.drafts, list[int]()
        for i, position in enumerate(range(segment.end - 1 - len(drafts), segment.end)):
            mask = None if segment.sample.mask is None else segment.sample.masks[i]
            tokens.append(self.allowed_token(self.next_token(self.kv[segment.pages.place(position)]), mask))
            if i < len(drafts) and drafts[i].token_id != tokens[-1]:
                break
        return tokens

    def _given(self, segment: Segment) -> RowsGiven:
        """Return what a segment's rows give besides KV."""
        wanted = segment.wanted
        if wanted is None:
            return NOTHING
        rows = self.rows(segment.pages, segment.start, segment.end)
        pooled = {Pooling.MEAN: rows, Pooling.LAST: rows[-1:], None: []}[wanted.pooling]
        scores = tuple(
            self.score(state, target, wanted.alternatives) for state, target in zip(rows, wanted.targets, strict=False)
        )
        return RowsGiven(_summed(map(hidden_state, pooled)), len(pooled), scores)

    def score(self, state: int, target: int, alternatives: int) -> TokenScore:
        """Return how likely a token is after a history of this state; the likeliest follow the next token."""
        likely = [(self.next_token(state) + i) % self.vocab_size for i in range(alternatives)]
        top = tuple((token_id, -0.5 * i) for i, token_id in enumerate(likely))
        return TokenScore(TokenLogprobs(-float(splitmix64(state ^ target) % 1024), top), 1 + state % 7)

    def embedding(self, prompt: Sequence[int], pooling: Pooling) -> list[float]:
        """The vector that a prompt alone on a clean server must give."""
        states = list(accumulate(prompt, chain, initial=_ROOT))[1:]
        pooled = states if pooling is Pooling.MEAN else states[-1:]
        return [value / len(pooled) for value in _summed(map(hidden_state, pooled))]

    def scores(self, prompt: Sequence[int], alternatives: int) -> list[tuple[int, TokenScore | None]]:
        """The tokens of a prompt alone on a clean server, and how likely each must be."""
        states = list(accumulate(prompt, chain, initial=_ROOT))[1:-1]
        scores = [self.score(state, target, alternatives) for state, target in zip(states, prompt[1:], strict=True)]
        return [*zip(prompt, [None, *scores], strict=True)]

    def next_token(self, state: int) -> int:
        """The token that follows a history of this state."""
        return splitmix64(state) % self.vocab_size

    def allowed_token(self, token_id: int, mask: TokenMask | None) -> int:
        """Return what is drawn in place of a token: the first from it on that its mask allows."""
        bits = None if mask is None else mask.take()
        if bits is None:
            return token_id
        tokens = ((token_id + i) % self.vocab_size for i in range(self.vocab_size))
        return next(token for token in tokens if bits[token // 8] >> token % 8 & 1)


def _rows(segments: Sequence[Segment]) -> list[tuple[object, ...]]:
    """Return what segments compute, and where it lies."""
    return [
        (one.slot, one.pages, one.start, list(one.token_ids), one.state, one.next_states, one.spare_states)
        for one in segments
    ]


class _StandIn(int):
    """Stand-in for the target's state at a position until the target has been there."""


class SimulatedDrafter(SimulatedModel):
    """A drafter for a `SimulatedModel`, of one layer, that is right about a known share of tokens.

    Which ones is a function of the history as well: wherever its KV, or the state that it goes on from, is not that of
    the tokens before, its guesses are no better than chance, and the count of accepted drafts shows it.

    Args:
        target: of which it has the pool and vocabulary.
        accuracy: share of right guesses.
        from_states: goes on from the target's states, as an MTP module does.
    """

    def __init__(self, target: SimulatedModel, *, accuracy: float, from_states: bool = False) -> None:
        super().__init__(
            slots=target.slots,
            context=target.context,
            num_layers=1,
            vocab_size=target.vocab_size,
            positions=target.positions,
        )
        self._target = target
        self._accuracy = accuracy
        self._from_states = from_states

    def _begin(self, segments: Sequence[Segment]) -> SimulatedBatch:
        """Spoil the rows that are written, but those that are there: whoever shares a page may have had them read."""
        there = [
            (place, row) for segment in segments for place, row in self._to_write(segment) if self.kv[place] == row
        ]
        batch = super()._begin(segments)
        for place, row in there:
            self.kv[place] = row
        return batch

    def _to_write(self, segment: Segment) -> Iterator[tuple[int, int]]:
        state = self.kv[segment.pages.place(segment.start - 1)] if segment.start > segment.first else _ROOT
        for position, token_id in enumerate(segment.token_ids, start=segment.start):
            state = chain(state, token_id)
            yield segment.pages.place(position), state

    def guess(self, state: int) -> int:
        """Return what it takes for the next token after a history of this state."""
        token = self.next_token(state)
        right = splitmix64(state ^ 0xD4AF7) < self._accuracy * 2**64
        return token if right else (token + 1) % self.vocab_size

    def _sample(self, segment: Segment) -> list[int]:
        if segment.sample is None:
            return []
        last = segment.pages.place(segment.end - 1)
        if not self._from_states:
            return [self.allowed_token(self.guess(self.kv[last]), segment.sample.mask)]
        states = self._target.states
        before = states[segment.pages.place(segment.end - 2)]
        states[last] = _StandIn(chain(before, segment.token_ids[-1]))
        return [self.allowed_token(self.guess(states[last]), segment.sample.mask)]

    def _write(self, segment: Segment) -> None:
        """Rows that go on from what only stands in for the target's state are not those that will be right."""
        super()._write(segment)
        if self._from_states and isinstance(self._target.states[segment.pages.place(segment.start - 1)], _StandIn):
            self.kv[segment.pages.place(segment.end - 1)] ^= 1


class SimulatedAssistant(SimulatedDrafter):
    """A drafter that has no KV: all rows of a round are at the newest token's position, behind the target's state.

    That state makes way for what stands in for that of a drafted token.
    """

    def _write(self, segment: Segment) -> None:
        """Write nothing."""
        assert len(segment.token_ids) == 1, "it reads the newest token alone"

    def _sample(self, segment: Segment) -> list[int]:
        assert segment.sample is not None, "its rows draw a draft each"
        states, before = self._target.states, segment.pages.place(segment.first - 1)
        seen = states[before]
        if not isinstance(seen, _StandIn) and seen != self._target.kv[before]:
            seen ^= _LOST
        states[before] = _StandIn(chain(seen, segment.token_ids[-1]))
        return [self.allowed_token(self.guess(states[before]), segment.sample.mask)]


def byte_tokenizer() -> Tokenizer:
    """Make a tokenizer that needs no vocabulary: a token is a byte, and ids from 256 on have no text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = tokenizers.Tokenizer(models.BPE(vocab={byte: i for i, byte in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return Tokenizer(backend)


def stand_in(
    model: SimulatedModel, tokenizer: Tokenizer | None = None, *, end_ids: Iterable[int] = (), chat: Chat | None = None
) -> ServedModel:
    """Describe a simulated model as one that is served.

    Args:
        model: whose KV it is.
        tokenizer: None for one of which a token is a byte.
        end_ids: the model's end-of-sequence tokens.
        chat: how it converses; None for a base model.
    """
    return ServedModel(
        model.context,
        model.vocab_size,
        tokenizer or byte_tokenizer(),
        eos_token_ids=tuple(end_ids),
        chat=chat,
        rings=model.rings,
        state_buffers=len(model.buffers),
        positions=model.positions,
    )
