"""Options for how the engine shares its device.  Torch is not imported: the command line reads them first."""

from dataclasses import dataclass
from typing import Annotated

from runtime.common.options import POSITIVE, Option, whole
from runtime.common.units import MIB
from runtime.loading.served import Proposer


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Options for how the engine shares its device; the fields with an `Option` say themselves what they are.

    Attributes:
        slots: sequences that can run at a time; the model's KV has room for as many.
        answer_bytes, unread_bytes: None for no bound, which no option can say.
        step_seconds: the target time of a step that decoding neighbours share with a prompt, where `chunk_tokens` is
            None.
        ageing_seconds: count as one level of priority for a class of the queue that is passed over.
        speculate: where drafts come from; the executor has a drafter if that takes one.
        isolate_owners: KV that was computed for one owner is used for no other.
        log_texts: the log has the text of prompts and answers.
    """

    slots: int = 4
    queue: Annotated[int, Option("Requests that may wait for a slot.", whole(0), unit="requests")] = 64
    queue_timeout: Annotated[
        float | None, Option("How long a request may wait for a slot.", POSITIVE, unit="seconds", none=("none",))
    ] = None
    request_timeout: Annotated[
        float | None, Option("How long a request may take in all.", POSITIVE, unit="seconds", none=("none",))
    ] = None
    chunk_tokens: Annotated[
        int | None,
        Option(
            "Prompt tokens per step; auto sizes them by what steps are measured to cost.",
            whole(1),
            unit="tokens",
            none=("auto",),
        ),
    ] = None
    draft_tokens: Annotated[
        int | None,
        Option(
            "Tokens drafted at a time; auto, as many as they are measured to be worth.",
            whole(1, 16),
            unit="tokens",
            none=("auto",),
        ),
    ] = None
    answer_bytes: Annotated[
        int | None,
        Option(
            "Memory for what one client has not read yet, or for an answer that is sent whole; one that leaves more "
            "unread is cut off.",
            unit="bytes",
            name="max-answer",
        ),
    ] = 64 * MIB
    unread_bytes: Annotated[
        int | None,
        Option(
            "Memory for what all clients together have not read yet; who leaves most is cut off.",
            unit="bytes",
            name="max-unread",
        ),
    ] = 256 * MIB
    burst_seconds: Annotated[
        float | None,
        Option(
            "For how long tokens of fast steps are gathered before they are sent, while the device goes on; off, each "
            "step waits until the tokens of the one before were sent.",
            POSITIVE,
            unit="seconds",
            none=("off",),
            name="burst",
        ),
    ] = 0.008
    preemption: Annotated[
        str,
        Option(
            "`on`: a request takes the slot of one of worse priority, which goes on where it was when there is room.",
            words=("off", "on"),
        ),
    ] = "on"
    step_seconds: float = 0.02
    ageing_seconds: float = 3.0
    speculate: Proposer = Proposer.OFF
    isolate_owners: bool = False
    log_texts: bool = False
