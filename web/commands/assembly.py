"""Assembly of all that the server is told, from the options that were chosen.

Whatever can be wrong with them and with the model's small files is said before torch is imported, which takes seconds.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runtime.checkpoint.sampling_defaults import SamplingOptions, sampling_defaults
from runtime.loading.options import LoadOptions
from runtime.loading.served import DRAFT_MODELS, Proposer
from runtime.store.resolve import embedded_draft, resolve_model
from web.process.limits import Limits
from web.process.options import Access, Diagnostics, Listening, ModelChoice, Patience, StateOptions, Wire

if TYPE_CHECKING:
    from actors.config import EngineConfig
    from web.commands.options.chosen import Chosen
    from web.http.browser_policy import BrowserPolicy
    from web.serving.server import ServerOptions

logger = logging.getLogger("cede.web")

Find = Callable[[str | None, Path | None], Path]
"""From a model's name, and cede's folder of models, to its files."""


def refuse_contradictions(chosen: Chosen) -> None:
    """Raise UsageError where an option would have no effect, unless one from a stronger place is the reason."""
    speculate, draft_tokens, draft_model = chosen["speculate"], chosen["draft-tokens"], chosen["draft-model"]
    if chosen["kv-dir"].value is None and chosen["kv-disk"].is_given:
        raise click.UsageError("--kv-disk has no use without --kv-dir")
    if chosen["api-key"].is_given and not chosen["api-key"].value:
        raise click.UsageError(f"--api-key: there is no key in {chosen['api-key'].place}")
    if chosen["isolate-keys"].value == "on" and not (chosen["api-key"].value or chosen["api-key-file"].value):
        raise click.UsageError("--isolate-keys has no use without --api-key or --api-key-file")
    if chosen["keyfile"].value is not None and chosen["certfile"].value is None:
        raise click.UsageError("--keyfile has no use without --certfile")
    if speculate.value is Proposer.OFF and draft_tokens.is_given and not draft_tokens.yields_to(speculate):
        raise click.UsageError("--draft-tokens has no use with --speculate off")
    if (
        draft_model.value is not None
        and speculate.value not in (None, *DRAFT_MODELS)
        and not draft_model.yields_to(speculate)
    ):
        raise click.UsageError(f"--draft-model has no use with --speculate {speculate.value}")


def server_options(chosen: Chosen, find: Find = resolve_model) -> ServerOptions:
    """All that the server is told.  Raises CedeError; what needs no torch is looked at first.

    Args:
        chosen: the options.
        find: finds a model, and downloads one that is not here yet: `resolve_model` and whatever goes on around it.
    """
    from runtime.checkpoint.config import check_context
    from runtime.checkpoint.open import open_checkpoint
    from runtime.devices.parallel.share import check_shares
    from web.http.listeners import tls_context
    from web.observability.tracing.asked import traces_are_asked_for
    from web.process.access.api_keys import KeyRing
    from web.process.access.key_file import read_keys

    traced = traces_are_asked_for(os.environ)
    diagnostics = _diagnostics(chosen)
    listening, access = chosen.config(Listening), chosen.config(Access)
    keys = KeyRing(read_keys(access.api_keys, access.api_key_file))
    read_again = None
    if access.api_key_file is not None:
        read_again = partial(read_keys, access.api_keys, access.api_key_file.absolute(), may_be_empty=True)
    browser_policy = policy_of(access, listening)
    tls = None if listening.certfile is None else tls_context(listening.certfile, listening.keyfile)
    model = chosen.config(ModelChoice)
    load = _load_options(chosen, model, find)
    checkpoint = open_checkpoint(load.path)
    check_context(checkpoint.config, load.context)
    check_shares(checkpoint.config, load.tensor_parallel)
    sampling = sampling_defaults(checkpoint.generation, chosen.config(SamplingOptions))
    logger.info("loading %s from %s", _model_name(model.model), load.path)

    from actors.kv.config import CacheConfig, TierOptions
    from web.serving.server import Entrance, ServerOptions

    watch_loop = diagnostics.watch_loop
    return ServerOptions(
        load,
        model_name=_model_name(model.model),
        sampling=sampling,
        engine=_engine_config(chosen, load.slots, access, diagnostics),
        tiers=chosen.config(TierOptions),
        cache=chosen.config(CacheConfig),
        entrance=Entrance(
            tls=tls,
            keys=keys,
            read_keys=read_again,
            browser_policy=browser_policy,
            limits=chosen.config(Limits),
            wire=chosen.config(Wire),
            metrics_compat=diagnostics.metrics_compat,
        ),
        state=chosen.config(StateOptions),
        patience=chosen.config(Patience),
        watch_loop=None if watch_loop is None else watch_loop / 1e3,
        traced=traced,
        record=diagnostics.record,
    )


def _engine_config(chosen: Chosen, slots: int, access: Access, diagnostics: Diagnostics) -> EngineConfig:
    """Return how the engine shares its device, and what it says of its clients."""
    from actors.config import EngineConfig

    return chosen.config(
        EngineConfig,
        slots=slots,
        isolate_owners=access.isolate_keys == "on",
        log_texts=diagnostics.log_prompts == "on",
    )


def _diagnostics(chosen: Chosen) -> Diagnostics:
    """Return what is said of the server's work.  Raises RecordingError."""
    diagnostics = chosen.config(Diagnostics)
    if diagnostics.record is not None:
        from web.observability.recording.file import check_writable

        check_writable(diagnostics.record)
    if diagnostics.log_prompts == "on":
        logger.warning("--log-prompts: what clients ask and are answered goes to the log")
    return diagnostics


def policy_of(access: Access, listening: Listening) -> BrowserPolicy:
    """Return what web pages may ask.  Raises BrowserPolicyError."""
    from web.http.browser_policy import BrowserPolicy

    own_name = [listening.host] if listening.host else []
    return BrowserPolicy.parse(access.allowed_origins, [*own_name, *access.allowed_hosts])


def _load_options(chosen: Chosen, choice: ModelChoice, find: Find) -> LoadOptions:
    """Return what to load, and where it lies.  Raises CheckpointError."""
    options = chosen.config(LoadOptions, path=find(choice.model, choice.models_dir))
    return replace(options, draft=_draft_path(choice, options.speculate, find))


def _draft_path(choice: ModelChoice, speculate: Proposer | None, find: Find) -> Path | None:
    """Return where the draft model lies, if there is one that may be used.  Raises CheckpointError."""
    if speculate not in (None, *DRAFT_MODELS):
        return None
    if choice.draft_model is None:
        return embedded_draft() if choice.model is None and speculate is Proposer.DRAFT else None
    return find(choice.draft_model, choice.models_dir)


def _model_name(model: str | None) -> str:
    """The model's name as the API shows it."""
    if model is None:
        return "cede-embedded"
    path = Path(model).expanduser()
    if path.is_dir():
        return path.resolve().name
    return path.stem if path.is_file() else model
