"""A model without a folder, tokenizer or text, for engines that run on random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.text.text_stream import TextDelta

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.generating.output import Text
    from runtime.checkpoint.config import ModelConfig

_NOTHING = TextDelta("", stopped=False)


class NoText:
    """A text stream that is always empty, because text is not what is measured."""

    @property
    def stop_found(self) -> None:
        """No stop string, for there is no text."""
        return None

    def push(self, token_id: int, *, match_stops: bool = True) -> TextDelta:
        """Take a token, which has no text."""
        return _NOTHING

    def flush(self) -> str:
        """Return the rest of the text: nothing."""
        return ""


class BareModel:
    """The few attributes of a served model that an engine needs.

    Args:
        config: of the model.
        context: tokens of a slot.
    """

    def __init__(self, config: ModelConfig, context: int) -> None:
        self.name = "bare"
        self.context_length = context
        self.eos_token_ids: tuple[int, ...] = ()
        self.vocab_size = config.vocab_size
        self.rings = None
        self.positions = None  # of the pool: as many as all slots have at their longest
        self.position_bytes = 0  # not told: nobody looks at the pool's statistics here
        self.state_buffers = 0  # of a model without recurrent layers
        self.tokenizer = None  # no request here has a grammar

    def text(self, stop: Sequence[str], *, continues: bool = False, visible: Collection[int] = frozenset()) -> Text:
        """Return a text stream for one generation."""
        return NoText()
