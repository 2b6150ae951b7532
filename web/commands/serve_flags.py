"""The flags of `cede serve`: names, other servers' names for the same, types, defaults and help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.checkpoint.sampling_defaults import SamplingSource
from web.commands.parameters import AT_LEAST_ONE, DURATION, FILE, POSITIVE, SHARE, SIZE, SOME_SECONDS, sampling, whole

if TYPE_CHECKING:
    from collections.abc import Callable

FLAGS: tuple[Callable[..., Any], ...] = (
    click.argument("folder_or_id", required=False, metavar="[MODEL]"),
    click.option(
        "-m", "--model", help="The same as MODEL: a folder in Hugging Face layout, or a hub id.  [default: embedded]"
    ),
    click.option("--host", default="127.0.0.1", help="Address or name to listen on."),
    click.option("--port", type=whole(0, 65535), default=8000, help="0 picks a free one."),
    click.option("--certfile", "--ssl-certfile", "certfile", type=FILE, help="Certificate in PEM: serve HTTPS."),
    click.option("--keyfile", "--ssl-keyfile", "keyfile", type=FILE, help="Its key.  [default: in the same file]"),
    click.option(
        "--api-key",
        "api_keys",
        metavar="KEY",
        multiple=True,
        envvar="CEDE_API_KEY",
        show_envvar=True,
        help="Serve only clients that send one of the keys; `ps` shows it, which the variable and the file do not.",
    ),
    click.option("--api-key-file", type=FILE, help="Keys, one per line."),
    click.option(
        "--allow-origin",
        "allowed_origins",
        metavar="ORIGIN",
        multiple=True,
        help="Serve web pages of this origin, such as http://localhost:3000; * for any.",
    ),
    click.option(
        "--allow-host",
        "allowed_hosts",
        metavar="NAME",
        multiple=True,
        help="Name that clients may ask for on a loopback address; * for any.  [default: localhost, addresses, --host]",
    ),
    click.option("--max-body", type=SIZE, default="4MiB", help="Bytes of one request's body."),
    click.option(
        "--max-connections", type=POSITIVE, default=512, help="Connections open at a time; one more is refused."
    ),
    click.option(
        "-np",
        "--slots",
        "--parallel",
        "--max-num-seqs",
        "slots",
        type=POSITIVE,
        default=4,
        help="Sequences that run at a time.",
    ),
    click.option(
        "-c",
        "--context",
        "--ctx-size",
        "--max-model-len",
        "context",
        type=whole(0),
        help="Tokens per slot; 0 or nothing for the model's own, bounded by memory.",
    ),
    click.option("--device", type=click.Choice(["auto", "mps", "cuda", "cpu"]), default="auto"),
    click.option("--dtype", type=click.Choice(["auto", "bfloat16", "float16", "float32"]), default="auto"),
    click.option(
        "--quantize", type=click.Choice(["int8", "int4"]), help="Keep weights in 8 or 4 bits.  [default: as --dtype]"
    ),
    click.option("-t", "--threads", type=whole(1, 1024, auto=True), default="auto", help="CPU threads of a step."),
    click.option("--chunk-tokens", type=whole(1, auto=True), default="auto", help="Prompt tokens per step."),
    click.option(
        "--sampling-defaults",
        type=click.Choice([source.value for source in SamplingSource]),
        default=SamplingSource.MODEL.value,
        help="Sampling of requests that do not say: model, as its generation_config.json recommends, and as "
        "llama-server does where that is silent; or openai, temperature 1 and nothing filtered.",
    ),
    click.option(
        "--temperature",
        "--temp",
        type=sampling("temperature"),
        help="Default of requests that do not say; 0 is greedy.",
    ),
    click.option("--top-p", type=sampling("top_p"), help="Likewise: keep the likeliest tokens that have this share."),
    click.option("--top-k", type=sampling("top_k"), help="Likewise: keep so many tokens; 0 for all."),
    click.option("--min-p", type=sampling("min_p"), help="Likewise: keep those with this share of the likeliest."),
    click.option(
        "--repetition-penalty",
        "--repeat-penalty",
        "repetition_penalty",
        type=sampling("repetition_penalty"),
        help="Likewise: above 1, what is there already gets less likely.",
    ),
    click.option(
        "--speculate",
        type=click.Choice(["off", "auto", "ngram", "draft", "mtp"]),
        default="auto",
        help="What drafts tokens for the model to verify.",
    ),
    click.option(
        "-md",
        "--draft-model",
        "--model-draft",
        "draft_model",
        help="Folder or hub id of a smaller model of the same vocabulary.",
    ),
    click.option("--draft-tokens", type=whole(1, 16, auto=True), default="auto", help="Tokens drafted at a time."),
    click.option("--queue", type=whole(0), default=64, help="Requests that may wait."),
    click.option("--queue-timeout", type=SOME_SECONDS, help="Seconds to wait for a slot.  [default: no limit]"),
    click.option("--request-timeout", type=SOME_SECONDS, help="Seconds a request may take.  [default: no limit]"),
    click.option(
        "--stall-timeout",
        type=SOME_SECONDS,
        default=30.0,
        help="Seconds until a client that reads nothing, or next to nothing, is cut off.",
    ),
    click.option(
        "--max-answer",
        type=SIZE,
        default="64MiB",
        help="Memory for what one client has not read yet; one that leaves more unread is cut off.",
    ),
    click.option("--max-unread", type=SIZE, default="256MiB", help="The same for all; who leaves most is cut off."),
    click.option(
        "--hang-timeout",
        type=DURATION,
        default=120.0,
        help="Seconds without the end of a layer until the device counts as hanging; 0 for never.",
    ),
    click.option("--grace", type=DURATION, default=30.0, help="Seconds that running requests have at shutdown."),
    click.option("--kv-ram", type=SIZE, help="Memory for KV blocks, such as 2GiB.  [default: a fifth of the free]"),
    click.option(
        "--kv-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Keep KV blocks in this folder, across restarts.",
    ),
    click.option("--kv-disk", type=SIZE, default="8GiB", help="Disk space for them, with --kv-dir."),
    click.option(
        "--kv-hold", type=DURATION, default=60.0, help="Seconds for which a cancelled request's KV is kept longest."
    ),
    click.option("--kv-audit", type=SHARE, default=0.0, help="Share of cache hits to compute again and compare."),
    click.option("--chaos", type=FILE, help="Fail as planned in this TOML file; on loopback only."),
    click.option(
        "--watch-loop",
        type=AT_LEAST_ONE,
        metavar="MS",
        help="Say who held the event loop for so many milliseconds, such as 10.  [default: not watched]",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        help="At info, one line per request that ended or was refused.",
    ),
)

# Flags of llama-server's and vLLM's that cede does not have, and what to do instead.
_DEVICE = "the whole model runs on one device, which --device chooses"
_CHUNKS = "prompts are read in chunks, which --chunk-tokens sizes"
_HUB = "give the hub id to --model; cede reads safetensors, not GGUF"
_MEMORY = "memory is reserved by --slots and --context"
FOREIGN = {
    "-ngl": _DEVICE,
    "--n-gpu-layers": _DEVICE,
    "--gpu-layers": _DEVICE,
    "-tp": _DEVICE,
    "--tensor-parallel-size": _DEVICE,
    "--gpu-memory-utilization": _MEMORY,
    "-b": _CHUNKS,
    "-ub": _CHUNKS,
    "--batch-size": _CHUNKS,
    "--ubatch-size": _CHUNKS,
    "--max-num-batched-tokens": _CHUNKS,
    "-hf": _HUB,
    "-hfr": _HUB,
    "--hf-repo": _HUB,
    "--speculative-config": "it is --speculate and --draft-model here",
    "-n": "a request says 'max_tokens'",
    "--n-predict": "a request says 'max_tokens'",
    "--predict": "a request says 'max_tokens'",
    "--quantization": "--quantize int8 or int4 quantises full weights while they are loaded",
    "--served-model-name": "requests may use any name; /v1/models shows the folder's",
    "-a": "requests may use any name; /v1/models shows the folder's",
    "--alias": "requests may use any name; /v1/models shows the folder's",
    "--enable-prefix-caching": "what was computed is always reused, unless a request says 'cache_prompt': false",
    "--trust-remote-code": "cede runs no code of a model's but its chat template, in a sandbox",
    "-fa": "attention always reads KV in place",
    "--flash-attn": "attention always reads KV in place",
}


class ServeCommand(click.Command):
    """`cede serve`, which knows what other servers call things."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Before click reads `-tp` as `-t p`."""
        for name in (arg.partition("=")[0] for arg in args):
            if name in FOREIGN:
                raise click.UsageError(f"there is no {name}: {FOREIGN[name]}", ctx)
        return super().parse_args(ctx, args)


def serve_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command all of the flags."""
    for decorate in reversed(FLAGS):
        function = decorate(function)
    return function
