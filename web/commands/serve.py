"""`cede serve`: from its flags to a server that runs.

Whatever can be wrong with the flags and the model's small files is said before torch is imported, which takes seconds.
"""

from __future__ import annotations

import gc
import logging
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from runtime.checkpoint.sampling_defaults import RANGES, SamplingOptions, SamplingSource
from runtime.errors import CedeError
from runtime.log_text import log_to_stderr
from web.commands.serve_flags import ServeCommand, serve_flags
from web.process.signals import EarlyStop
from web.process.streams import say

if TYPE_CHECKING:
    from runtime.checkpoint.sampling_defaults import SamplingDefaults
    from runtime.testing.faults import FaultPlan
    from web.fittings import Fittings
    from web.server import ServerOptions


logger = logging.getLogger("cede.web")


@click.command(cls=ServeCommand, context_settings={"show_default": True})
@serve_flags
def serve(**flags: Any) -> None:  # noqa: ANN401
    """Serve a model over OpenAI's HTTP API.

    MODEL is a folder in Hugging Face layout, or a hub id (org/name); without one, the small model that comes with cede.

    SIGTERM or Ctrl-C lets running requests finish within --grace; a second one exits at once.
    """
    log_to_stderr(flags["log_level"])
    early = EarlyStop()
    early.install()
    given = SimpleNamespace(**flags)
    _refuse_contradictions(given)
    try:
        plan = None if given.chaos is None else _fault_plan(given.host, given.chaos)
        _run(_server_options(given), early, plan)
    except CedeError as error:
        raise click.ClickException(str(error)) from None


def _refuse_contradictions(given: SimpleNamespace) -> None:
    """Raise UsageError where a flag would have no effect, or two say different things."""
    if None not in (given.folder_or_id, given.model) and given.folder_or_id != given.model:
        raise click.UsageError(f"two models: {given.folder_or_id} and --model {given.model}")
    if given.kv_dir is None and _is_given("kv_disk"):
        raise click.UsageError("--kv-disk has no use without --kv-dir")
    if _is_given("api_keys") and not given.api_keys:
        raise click.UsageError("--api-key: there is no key in CEDE_API_KEY")
    if given.keyfile is not None and given.certfile is None:
        raise click.UsageError("--keyfile has no use without --certfile")
    if given.speculate == "off" and _is_given("draft_tokens"):
        raise click.UsageError("--draft-tokens has no use with --speculate off")
    if given.draft_model is not None and given.speculate not in ("auto", "draft"):
        raise click.UsageError(f"--draft-model has no use with --speculate {given.speculate}")


def _server_options(given: SimpleNamespace) -> ServerOptions:
    """All that the server is told.  Raises CedeError; what needs no torch is looked at first."""
    from runtime.checkpoint.locate import resolve_model
    from web.http.api_keys import read_keys
    from web.http.browser_policy import BrowserPolicy
    from web.http.listeners import tls_context
    from web.limits import Limits

    keys = read_keys(given.api_keys, given.api_key_file)
    allowed = BrowserPolicy.parse(given.allowed_origins, [*filter(None, [given.host]), *given.allowed_hosts])
    tls = None if given.certfile is None else tls_context(given.certfile, given.keyfile)
    model = given.folder_or_id or given.model
    folder = resolve_model(model)
    context = given.context or None
    _check_model(folder, context)
    sampling = _sampling_defaults(folder, given)
    draft = _draft_folder(given.draft_model, model, given.speculate)
    logger.info("loading %s from %s", _model_name(model), folder)

    from actors.config import EngineConfig
    from actors.kv.config import CacheConfig, TierOptions
    from runtime.loading.options import LoadOptions
    from runtime.loading.served import Proposer
    from runtime.nn.quantization import Quantization
    from web.server import ServerOptions

    return ServerOptions(
        load=LoadOptions(
            folder,
            slots=given.slots,
            context=context,
            device=given.device,
            dtype=given.dtype,
            quantize=None if given.quantize is None else Quantization(given.quantize),
            threads=given.threads,
            speculate=None if given.speculate == "auto" else Proposer(given.speculate),
            draft=draft,
        ),
        model_name=_model_name(model),
        sampling=sampling,
        engine=EngineConfig(
            slots=given.slots,
            queue=given.queue,
            chunk_tokens=given.chunk_tokens,
            draft_tokens=given.draft_tokens,
            queue_timeout=given.queue_timeout,
            request_timeout=given.request_timeout,
        ),
        tiers=TierOptions(ram=given.kv_ram, folder=given.kv_dir, disk=given.kv_disk),
        cache=CacheConfig(hold_seconds=given.kv_hold, audit_share=given.kv_audit),
        host=given.host,
        port=given.port,
        tls=tls,
        keys=keys,
        allowed=allowed,
        limits=Limits(
            connections=given.max_connections,
            body_bytes=given.max_body,
            answer_bytes=given.max_answer,
            unread_bytes=given.max_unread,
        ),
        grace=given.grace,
        stall_timeout=given.stall_timeout,
        hang_timeout=given.hang_timeout or None,
        watch_loop=None if given.watch_loop is None else given.watch_loop / 1e3,
    )


def _check_model(folder: Path, context: int | None) -> None:
    """Raise CheckpointError where its config or the length asked for already says no."""
    from runtime.checkpoint.config import check_context, load_config

    check_context(load_config(folder), context)


def _sampling_defaults(folder: Path, given: SimpleNamespace) -> SamplingDefaults:
    from runtime.checkpoint.sampling_defaults import sampling_defaults

    named = {name: value for name in RANGES if (value := getattr(given, name)) is not None}
    return sampling_defaults(folder, SamplingOptions(SamplingSource(given.sampling_defaults), **named))


def _fault_plan(host: str, path: Path) -> FaultPlan:
    """What is to go wrong on this server.  Raises ChaosError."""
    from web.testing.chaos import plan_for

    return plan_for(host, path)


def _fittings(plan: FaultPlan | None) -> Fittings:
    """What the server is fitted with: something that fails as planned, if there is a plan."""
    if plan is None:
        from web.fittings import Fittings

        return Fittings()
    from web.testing.planned_faults import PlannedFaults

    return PlannedFaults(plan)


def _run(options: ServerOptions, early: EarlyStop, plan: FaultPlan | None) -> None:
    import trio

    from web.server import run_server

    def announce(url: str) -> None:
        early.has_served = True
        # What is there now stays until the end: to look through it for garbage again and again would stop all threads,
        # and everybody's tokens, for 0.15 s each time.
        gc.collect()
        gc.freeze()
        say(f"cede serves {options.model_name} at {url}")

    progress = LoadingBar() if sys.stderr.isatty() else None
    fittings = _fittings(plan)
    run = partial(run_server, options, progress=progress, announce=announce, fittings=fittings)
    trio.run(run, clock=fittings.clock)


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
    """The draft model's folder, if there is one.  Raises CheckpointError."""
    from runtime.checkpoint.locate import embedded_draft, resolve_model

    if draft_model is None:
        return embedded_draft() if model is None and speculate == "draft" else None
    return resolve_model(draft_model)


def _model_name(model: str | None) -> str:
    if model is None:
        return "cede-embedded"
    folder = Path(model).expanduser()
    return folder.resolve().name if folder.is_dir() else model
