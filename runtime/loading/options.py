"""Options for loading a model.  Torch is not imported: the command line reads the options here before it imports it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from runtime.chat.formats.choose import ToolFormatName
from runtime.common.options import Option, whole
from runtime.loading.served import Proposer
from runtime.nn.matrices.quantization import Quantization
from runtime.step.prompt_rows.wanted import PoolingChoice


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for what to load, and in which form; the fields with an `Option` say themselves what they are.

    Attributes:
        path: of the model, as `open_checkpoint` takes it.
        draft: likewise, of a draft model.
    """

    path: Path
    slots: Annotated[
        int,
        Option(
            "Sequences that run at a time.",
            whole(1),
            unit="slots",
            aliases=("-np", "--parallel", "--max-num-seqs"),
        ),
    ] = 4
    context: Annotated[
        int | None,
        Option(
            "Tokens per slot; auto, or 0, for the model's own, bounded by memory.",
            whole(1),
            unit="tokens",
            aliases=("-c", "--ctx-size", "--max-model-len"),
            none=("auto", "0"),
        ),
    ] = None
    device: Annotated[str, Option("Where the model runs.", words=("auto", "mps", "cuda", "cpu"))] = "auto"
    dtype: Annotated[
        str,
        Option("What it computes in; auto is what suits the device.", words=("auto", "bfloat16", "float16", "float32")),
    ] = "auto"
    quantize: Annotated[
        Quantization,
        Option(
            "Bits of a weight: int8, int4, or none for all that --dtype has; auto keeps those that the model's files "
            "have."
        ),
    ] = Quantization.AUTO
    native: Annotated[
        str,
        Option(
            "Whether few rows of a layer are computed in cede's own way, where it can be: on a CPU by its kernels, if "
            "they were built and the processor has what they take; on CUDA by recorded layers; on MPS by kernels for "
            "attention. off, or 0, leaves all to PyTorch.",
            words=("auto", "off", "0"),
        ),
    ] = "auto"
    deterministic: Annotated[
        str,
        Option(
            "`on`: a request's tokens do not depend on who else is served, what is drafted, or what was computed "
            "before, in bfloat16 either. The kernels of --native then compute all rows, so prompts take longer; "
            "refused where they cannot.",
            words=("off", "on"),
        ),
    ] = "off"
    threads: Annotated[
        int | None,
        Option(
            "CPU threads of a step; auto is one per core, a single one for a small model, and fewer while other "
            "programs keep the processor busy.",
            whole(1, 1024),
            unit="threads",
            aliases=("-t",),
            none=("auto",),
        ),
    ] = None
    tensor_parallel: Annotated[
        int,
        Option(
            "Processes that compute one model together, each with a share of every layer: on CUDA a GPU each, on a CPU "
            "a part of --threads. Attention heads, key and value heads and inner widths must divide by it.",
            whole(1, 64),
            unit="processes",
            aliases=("-tp", "--tensor-parallel-size"),
        ),
    ] = 1
    speculate: Annotated[
        Proposer | None,
        Option(
            "What drafts tokens for the model to verify: mtp (the checkpoint's own module), draft (--draft-model), "
            "assistant (a --draft-model that reads the model's KV, as Gemma 4's do), ngram (the text so far), or off; "
            "auto is the first of these that there is.",
            none=("auto",),
        ),
    ] = None
    tool_format: Annotated[
        ToolFormatName | None,
        Option(
            "How the model writes tool calls; auto is what its chat template shows, and generic where that shows none.",
            aliases=("--tool-call-parser",),
            none=("auto",),
        ),
    ] = None
    chat_template: Annotated[
        Path | None,
        Option(
            "A chat template in Jinja, in place of the model's own: for a model that has none, or a broken one.",
            unit="file",
            none=("the model's",),
        ),
    ] = None
    open_objects: Annotated[
        str,
        Option(
            "`on`: in tools' arguments and in /api's `format`, an object whose schema says nothing of "
            "`additionalProperties` may have others than it lists, as JSON Schema has it.",
            words=("off", "on"),
        ),
    ] = "off"
    pooling: Annotated[
        PoolingChoice,
        Option(
            "How the states of a text become its embedding: their mean, the last one, or none for no embeddings; auto "
            "is what the model's files say it was trained for, and mean where they do not."
        ),
    ] = PoolingChoice.AUTO
    draft: Path | None = None
    kv_memory: Annotated[
        int | None,
        Option(
            "Memory for the KV that all running sequences share; auto is what they take at their longest. A request "
            "begins when what it may come to need, its prompt and max_tokens, fits beside the others'.",
            unit="bytes",
            none=("auto",),
        ),
    ] = None
    state_memory: Annotated[
        int | None,
        Option(
            "Memory for snapshots of the states of recurrent layers, from which prompts go on, beside what running "
            "sequences need; auto is room for eight a slot. Models without such layers take none.",
            unit="bytes",
            none=("auto",),
        ),
    ] = None

    @property
    def is_deterministic(self) -> bool:
        """Return whether no row's result may depend on what else is computed."""
        return self.deterministic == "on"
