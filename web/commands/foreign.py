"""Flags of llama-server's and vLLM's that cede does not have, and what to do instead."""

from __future__ import annotations

import click

from web.commands.options.flags import SectionedCommand

_DEVICE = "all layers are on the device that --device chooses, or on the several of --tensor-parallel"
_CHUNKS = "prompts are read in chunks, which --chunk-tokens sizes"
_HUB = "give the hub id to --model, a GGUF file's quantisation or name after it: org/name:Q4_K_M"
_ANSWER = "it is --max-tokens-default here, and a request says 'max_tokens'"
_MEMORY = "memory is reserved by --slots and --context"
_CACHE = "what was computed is always reused, in slots, memory (--kv-ram) and on disk (--kv-dir)"
_GRAMMAR = "a request says its 'grammar' or 'json_schema'"
_POOLING = "every model answers /v1/embeddings; --pooling says how"
FOREIGN = {
    "-ngl": _DEVICE,
    "--n-gpu-layers": _DEVICE,
    "--gpu-layers": _DEVICE,
    "--gpu-memory-utilization": _MEMORY,
    "-b": _CHUNKS,
    "-ub": _CHUNKS,
    "--batch-size": _CHUNKS,
    "--ubatch-size": _CHUNKS,
    "--max-num-batched-tokens": _CHUNKS,
    "-hf": _HUB,
    "-hfr": _HUB,
    "--hf-repo": _HUB,
    "-hff": _HUB,
    "--hf-file": _HUB,
    "--speculative-config": "it is --speculate and --draft-model here",
    "-n": _ANSWER,
    "--n-predict": _ANSWER,
    "--predict": _ANSWER,
    "--quantization": "--quantize int8 or int4 quantises full weights while they are loaded",
    "--served-model-name": "requests may use any name; /v1/models shows the folder's",
    "-a": "requests may use any name; /v1/models shows the folder's",
    "--alias": "requests may use any name; /v1/models shows the folder's",
    "--enable-prefix-caching": _CACHE,
    "--cache-reuse": _CACHE,
    "--slot-save-path": _CACHE,
    "--jinja": "a chat template is always used; --chat-template FILE gives another",
    "--grammar": _GRAMMAR,
    "--json-schema": _GRAMMAR,
    "--metrics": "/metrics is always there; --metrics-compat llamacpp has llama-server's names",
    "--scheduling-policy": "the 'priority' of requests is always heeded",
    "--generation-config": "it is --sampling-defaults model or openai here",
    "--convert": _POOLING,
    "--pooler-config": _POOLING,
    "--data-parallel-size": "several engines are `cede cluster --workers 2`",
    "--trust-remote-code": "cede runs no code of a model's but its chat template, in a sandbox",
    "-fa": "attention always reads KV in place",
    "--flash-attn": "attention always reads KV in place",
}


class ServeCommand(SectionedCommand):
    """A command that takes the options, and knows what other servers call things."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a foreign flag, before click reads `-tp` as `-t p`."""
        for name in (arg.partition("=")[0] for arg in args):
            if name in FOREIGN:
                raise click.UsageError(f"there is no {name}: {FOREIGN[name]}", ctx)
        return super().parse_args(ctx, args)
