"""The command line.

Torch is not imported before `main` has set what its OpenMP runtime reads once, at load.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import logging
import math
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from runtime.errors import CedeError
from runtime.units import parse_size
from web.doctor import doctor
from web.kv_cli import Parsed, kv

if TYPE_CHECKING:
    from web.server import ServerOptions

# GNU OpenMP spins at its barriers, without end by default: with the event loop busy on one of two cores, a small
# product went from 0.5 ms to 8 ms, a scheduler tick.  Too short a spin lets threads fall asleep between products.
# Where another program always keeps a core busy, 1000 is better (bench/LOG.md).
GOMP_SPINCOUNT = "10000"

BENCH_LIBRARIES = ("httpx", "matplotlib", "psutil", "rich")  # the extra of that name


class Number(click.FloatRange):
    """A number in a range.  Click's own lets NaN through, which is neither below a bound nor above one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


POSITIVE = click.IntRange(min=1)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
SECONDS = Number(min=0, min_open=True)
SIZE = Parsed("size", parse_size)


class AutoOrInteger(click.ParamType[int | None]):
    """`auto` (None) or a positive integer, of at most `most` where that is given."""

    name = "auto|N"

    def __init__(self, most: int | None = None) -> None:
        self._range = click.IntRange(min=1, max=most)
        self._meant = "a positive number" if most is None else f"a number from 1 to {most}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:  # noqa: ANN401
        if value is None or value == "auto":
            return None
        try:
            return self._range.convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is neither auto nor {self._meant}", param, ctx)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cede")
def main() -> None:
    """Serve a language model, and give the accelerator back the moment nobody is listening."""
    os.environ.setdefault("GOMP_SPINCOUNT", GOMP_SPINCOUNT)


main.add_command(kv)
main.add_command(doctor)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure servers side by side, over HTTP."""
    missing = [name for name in BENCH_LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        raise click.ClickException(f"cede bench needs {', '.join(missing)}: pip install 'cede[bench]'")
    # Not an import statement: the harness stands above the server, and nothing of the server may lean on it.
    group: click.Group = importlib.import_module("bench.client.cli").bench
    group.main(arguments, prog_name="cede bench")


@main.command(context_settings={"show_default": True})
@click.option("--model", help="Folder in Hugging Face layout, or a hub id (org/name).  [default: the embedded model]")
@click.option("--host", default="127.0.0.1")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, help="0 picks a free one.")
@click.option("--certfile", "--ssl-certfile", "certfile", type=FILE, help="Certificate in PEM: serve HTTPS.")
@click.option("--keyfile", "--ssl-keyfile", "keyfile", type=FILE, help="Its key.  [default: in the same file]")
@click.option(
    "--api-key",
    "api_keys",
    metavar="KEY",
    multiple=True,
    envvar="CEDE_API_KEY",
    show_envvar=True,
    help="Serve those who send one of the keys; `ps` shows it, which the variable and the file do not.",
)
@click.option("--api-key-file", type=FILE, help="Keys, one a line.")
@click.option("--slots", type=POSITIVE, default=4, help="Sequences that run at a time.")
@click.option("--context", type=POSITIVE, help="Tokens per slot.  [default: the model's own, bounded by memory]")
@click.option("--device", type=click.Choice(["auto", "mps", "cuda", "cpu"]), default="auto")
@click.option("--dtype", type=click.Choice(["auto", "bfloat16", "float16", "float32"]), default="auto")
@click.option(
    "--quantize", type=click.Choice(["int8", "int4"]), help="Keep weights in 8 or 4 bits.  [default: as --dtype]"
)
@click.option("--threads", type=AutoOrInteger(1024), default="auto", help="CPU threads of a step.")
@click.option("--chunk-tokens", type=AutoOrInteger(), default="auto", help="Prompt tokens per step.")
@click.option(
    "--speculate",
    type=click.Choice(["off", "auto", "ngram", "draft", "mtp"]),
    default="auto",
    help="Who drafts tokens for the model to verify.",
)
@click.option("--draft-model", help="Folder or hub id of a smaller model of the same vocabulary.")
@click.option("--draft-tokens", type=AutoOrInteger(16), default="auto", help="Tokens drafted at a time.")
@click.option("--queue", type=click.IntRange(min=0), default=64, help="Requests that may wait.")
@click.option("--queue-timeout", type=SECONDS, help="Seconds that one may wait for a slot.  [default: no limit]")
@click.option("--request-timeout", type=SECONDS, help="Seconds that one may take in all.  [default: no limit]")
@click.option("--stall-timeout", type=SECONDS, default=30.0, help="Seconds until a client that reads nothing is cut.")
@click.option(
    "--hang-timeout",
    type=Number(min=0),
    default=120.0,
    help="Seconds without the end of a layer until the device is given up; 0 for never.",
)
@click.option("--grace", type=Number(min=0), default=30.0, help="Seconds that running requests have at shutdown.")
@click.option("--kv-ram", type=SIZE, help="Memory for KV blocks, such as 2GiB.  [default: a fifth of the free]")
@click.option(
    "--kv-dir", type=click.Path(file_okay=False, path_type=Path), help="Keep KV blocks in this folder, across restarts."
)
@click.option("--kv-disk", type=SIZE, default="8GiB", help="Disk space for them, with --kv-dir.")
@click.option(
    "--kv-hold", type=Number(min=0), default=60.0, help="Seconds that a cancelled request's KV is let go last."
)
@click.option("--kv-audit", type=Number(0, 1), default=0.0, help="Share of cache hits to compute again and compare.")
@click.option(
    "--chaos",
    type=FILE,
    help="Fail as planned in this TOML file; on loopback only.",
)
@click.option(
    "--watch-loop",
    type=Number(min=1),
    metavar="MS",
    help="Say who held the event loop for so many milliseconds, such as 10.  [default: not watched]",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info")
def serve(
    model: str | None,
    host: str,
    port: int,
    certfile: Path | None,
    keyfile: Path | None,
    api_keys: tuple[str, ...],
    api_key_file: Path | None,
    slots: int,
    context: int | None,
    device: str,
    dtype: str,
    quantize: str | None,
    threads: int | None,
    chunk_tokens: int | None,
    speculate: str,
    draft_model: str | None,
    draft_tokens: int | None,
    queue: int,
    queue_timeout: float | None,
    request_timeout: float | None,
    stall_timeout: float,
    hang_timeout: float,
    grace: float,
    kv_ram: int | None,
    kv_dir: Path | None,
    kv_disk: int,
    kv_hold: float,
    kv_audit: float,
    chaos: Path | None,
    watch_loop: float | None,
    log_level: str,
) -> None:
    """Serve a model over OpenAI's HTTP API.

    SIGTERM or Ctrl-C lets running requests finish within --grace; a second one exits at once.
    """
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    # While the model loads there is nothing to wind down; `run_server` takes the signals over once there is.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    from runtime.checkpoint import resolve_model
    from web.chaos import plan_for
    from web.keys import read_keys

    if kv_dir is None and _is_given("kv_disk"):
        raise click.UsageError("--kv-disk has no use without --kv-dir")
    if _is_given("api_keys") and not api_keys:
        raise click.UsageError("--api-key: there is no key in CEDE_API_KEY")
    if keyfile is not None and certfile is None:
        raise click.UsageError("--keyfile has no use without --certfile")
    if speculate == "off" and _is_given("draft_tokens"):
        raise click.UsageError("--draft-tokens has no use with --speculate off")
    try:
        keys = read_keys(api_keys, api_key_file)
        plan = None if chaos is None else plan_for(host, chaos)
        folder = resolve_model(model)
        draft = _draft_folder(draft_model, model, speculate)

        # Only now, because they import torch, which takes seconds.
        from actors.engine import EngineConfig
        from actors.prefix_cache import CacheConfig, TierOptions
        from runtime.loading import LoadOptions
        from runtime.quantize import Quantization
        from runtime.served import Proposer
        from web.server import ServerOptions

        options = ServerOptions(
            load=LoadOptions(
                folder,
                slots=slots,
                context=context,
                device=device,
                dtype=dtype,
                quantize=None if quantize is None else Quantization(quantize),
                threads=threads,
                speculate=None if speculate == "auto" else Proposer(speculate),
                draft=draft,
            ),
            model_name=_model_name(model),
            engine=EngineConfig(
                slots=slots,
                queue=queue,
                chunk_tokens=chunk_tokens,
                draft_tokens=draft_tokens,
                queue_timeout=queue_timeout,
                request_timeout=request_timeout,
            ),
            tiers=TierOptions(ram=kv_ram, folder=kv_dir, disk=kv_disk),
            cache=CacheConfig(hold_seconds=kv_hold, audit_share=kv_audit),
            host=host,
            port=port,
            certfile=certfile,
            keyfile=keyfile,
            keys=keys,
            grace=grace,
            stall_timeout=stall_timeout,
            hang_timeout=hang_timeout or None,
            watch_loop=None if watch_loop is None else watch_loop / 1e3,
            chaos=plan,
        )
        _run(options)
    except CedeError as error:
        raise click.ClickException(str(error)) from None


def _run(options: ServerOptions) -> None:
    import trio

    from actors.chaos import JumpingClock
    from web.server import run_server

    def announce(url: str) -> None:
        # What is there now stays until the end: to look through it for garbage again and again would stop all threads,
        # and everybody's tokens, for 0.15 s each time.
        gc.collect()
        gc.freeze()
        click.echo(f"cede serves {options.model_name} at {url}")

    run = partial(run_server, options, progress=LoadingBar() if sys.stderr.isatty() else None, announce=announce)
    trio.run(run, clock=None if options.chaos is None else JumpingClock())


class LoadingBar:
    """Shows on a terminal how much of the weights has been read."""

    def __init__(self) -> None:
        self._bar = click.progressbar(length=1, label="loading", file=sys.stderr)

    def __call__(self, done: int, total: int) -> None:
        """Take the bytes read so far, and in all."""
        self._bar.length = total
        self._bar.update(done - self._bar.pos)
        if done >= total:
            self._bar.render_finish()


def _is_given(name: str) -> bool:
    """Whether the user said so, rather than the default."""
    return click.get_current_context().get_parameter_source(name) is not ParameterSource.DEFAULT


def _draft_folder(draft_model: str | None, model: str | None, speculate: str) -> Path | None:
    """The draft model's folder, if there is one.  Raises CheckpointError, or UsageError where it would do nothing."""
    from runtime.checkpoint import embedded_draft, resolve_model

    if draft_model is None:
        return embedded_draft() if model is None and speculate == "draft" else None
    if speculate not in ("auto", "draft"):
        raise click.UsageError(f"--draft-model has no use with --speculate {speculate}")
    return resolve_model(draft_model)


def _model_name(model: str | None) -> str:
    if model is None:
        return "cede-embedded"
    folder = Path(model).expanduser()
    return folder.resolve().name if folder.is_dir() else model
