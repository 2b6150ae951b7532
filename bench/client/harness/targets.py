"""The servers that are measured: where they listen, how requests are put to them and, for some, how they are started.

A TOML file describes them:

    [llama]
    url = "http://127.0.0.1:8081"
    about = "llama.cpp, bf16, 2 threads"   # for the report
    # Started and stopped by this; without it, it runs already.
    command = ["/path/to/llama-server", "--port", "8081"]
    ready = "/health"                      # 200 once requests are accepted
    environment = { OMP_NUM_THREADS = "2" }
    endpoint = "completions"               # or "chat"
    model = "name"                         # its first one by default
    prompts = "ids"                        # or "text", if it takes no ids
    token_ids = [300, 3000]                # the range that ids are drawn from
    fields = { ignore_eos = true }         # added to each request's body
    # The fields that switch speculation off.
    without_speculation = { speculate = false }
    # Added to each request.
    headers = { Authorization = "Bearer ..." }
"""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import tomllib
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import trio

from bench.client.harness.client import Client
from bench.client.harness.dialect import Dialect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    import psutil

READY_SECONDS = 600.0
"""Seconds until a target that was started has to be ready; it may load a large model from a slow disk."""

STOP_SECONDS = 30.0
"""Seconds that a target has to end after SIGTERM, before SIGKILL."""

POLL_SECONDS = 0.1
"""Seconds between two questions whether a target is ready."""

KEYS = frozenset(
    "url about command ready environment endpoint model prompts token_ids fields without_speculation headers".split()
)


class TargetError(Exception):
    """A target has a wrong description, or does not come up.  The message says which and why."""


@dataclass(frozen=True, slots=True)
class Target:
    """One server.

    Attributes:
        name: in the report.
        url: without a path.
        about: a description for the report.
        command: starts it; empty for one that runs already.
        ready: path that answers 200 once requests are accepted.
        environment: variables that are added for `command`.
        dialect: how requests are put to it.  A model of "" stands for the first that the server lists.
    """

    name: str
    url: str
    about: str = ""
    command: tuple[str, ...] = ()
    ready: str = "/v1/models"
    environment: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect = field(default_factory=lambda: Dialect(model=""))


@dataclass(frozen=True, slots=True)
class Running:
    """A target that accepts requests.

    Attributes:
        target: its description.
        client: sends requests to it.
        process: the server; None if it was not started here.
    """

    target: Target
    client: Client
    process: trio.Process | None = None

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the server and its children; none if it was not started here."""
        if self.process is None:
            return []
        import psutil  # here and below: the help texts need it no more than the extra

        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def visible_processes(self) -> list[psutil.Process]:
        """Return the same; for a server that was not started here, who listens at its address, if visible."""
        return self.processes() or listeners_at(self.target.url)


def listeners_at(url: str) -> list[psutil.Process]:
    """Return the processes of this user that listen at a loopback address, and their children."""
    import psutil

    port = urlsplit(url).port
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            listening = [c for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
            if any(connection.laddr.port == port for connection in listening):
                found += [process, *process.children(recursive=True)]
    return found


def seen_bytes(processes: Sequence[psutil.Process]) -> int | None:
    """Return the resident bytes of processes together; None if there are none."""
    return resident_bytes(processes) if processes else None


def resident_bytes(processes: Sequence[psutil.Process]) -> int:
    """Return the resident bytes of processes together.  Those that have ended hold none."""
    import psutil

    held = 0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            held += process.memory_info().rss
    return held


# --- descriptions ---------------------------------------------------------------------------------------------------


def parse_target(given: str) -> Target:
    """Parse the command line's NAME=URL.  Raises TargetError."""
    name, equals, url = given.partition("=")
    if not (name and equals and url):
        raise TargetError(f"{given!r} is not NAME=URL")
    return Target(name, url.rstrip("/"))


def read_targets(path: Path) -> list[Target]:
    """Read the targets in a TOML file, in its order.  Raises TargetError."""
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise TargetError(f"{path}: {error}") from error
    return [_target(name, table) for name, table in tables.items()]


def _target(name: str, table: Any) -> Target:  # noqa: ANN401
    if not isinstance(table, dict) or "url" not in table:
        raise TargetError(f"target {name!r} should be a table with a url")
    if unknown := sorted(table.keys() - KEYS):
        raise TargetError(f"target {name!r} has unknown keys: {', '.join(unknown)}")
    plain = Target(name, table["url"].rstrip("/"), dialect=_dialect(name, table))
    return replace(
        plain,
        about=table.get("about", ""),
        command=tuple(table.get("command", ())),
        ready=table.get("ready", plain.ready),
        environment=table.get("environment", {}),
    )


def _dialect(name: str, table: dict[str, Any]) -> Dialect:
    plain = Dialect(model=table.get("model", ""), endpoint=table.get("endpoint", "completions"))
    prompts = table.get("prompts", "ids" if plain.endpoint == "completions" else "text")
    if plain.endpoint not in ("completions", "chat") or prompts not in ("ids", "text"):
        raise TargetError(f'target {name!r}: endpoint is "completions" or "chat", prompts are "ids" or "text"')
    if plain.endpoint == "chat" and prompts == "ids":
        raise TargetError(f"target {name!r}: a chat has no token ids")
    first, end = table.get("token_ids", (300, 3000))
    return replace(
        plain,
        token_ids=range(first, end) if prompts == "ids" else None,
        fields={"temperature": 0} | table.get("fields", {"ignore_eos": True}),
        without_speculation=table.get("without_speculation", plain.without_speculation),
        headers=table.get("headers", {}),
    )


def check_loopback(target: Target) -> None:
    """Raise TargetError unless every address of the target's host is a loopback address."""
    host = urlsplit(target.url).hostname
    if host is None:
        raise TargetError(f"target {target.name!r}: {target.url!r} has no host")
    try:
        addresses = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise TargetError(f"target {target.name!r}: {host}: {error}") from error
    remote = sorted(str(a) for a in addresses if not ipaddress.ip_address(str(a).partition("%")[0]).is_loopback)
    if remote:
        raise TargetError(
            f"target {target.name!r} is not on this machine ({', '.join(remote)}); "
            "load is sent elsewhere only with --allow-remote"
        )


# --- life -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def open_target(target: Target, log: Path) -> AsyncIterator[Running]:
    """Start the target, if it has a command, and wait until it is ready.  Stop it at the end of the scope.

    Args:
        target: to be opened.
        log: file for the output of the command.

    Raises:
        TargetError: the target does not start, or is not ready in time.
    """
    async with _open_process(target, log) as process:
        await _wait_ready(target, process, log)
        client = Client(target.url, target.dialect)
        try:
            if not target.dialect.model:
                client.dialect = replace(target.dialect, model=await _first_model(client))
            yield Running(target, client, process)
        finally:
            with trio.CancelScope(shield=True):
                await client.aclose()


@asynccontextmanager
async def _open_process(target: Target, log: Path) -> AsyncIterator[trio.Process | None]:
    if not target.command:
        yield None
        return
    async with _status_client(target) as http:
        if await _is_ready(http, target.ready):  # which would be measured in place of this target
            raise TargetError(f"target {target.name!r}: something answers at {target.url} already")
    with log.open("w") as output:
        try:
            process = await trio.lowlevel.open_process(
                target.command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | dict(target.environment)
            )
        except OSError as error:
            raise TargetError(f"target {target.name!r} does not start: {error}") from error
        try:
            yield process
        finally:
            await _stop(process)


async def _stop(process: trio.Process) -> None:
    """End a process, first by SIGTERM and then by SIGKILL."""
    with trio.CancelScope(shield=True):
        if process.poll() is None:
            process.terminate()
        with trio.move_on_after(STOP_SECONDS):
            await process.wait()
        if process.poll() is None:
            process.kill()
            await process.wait()


async def _wait_ready(target: Target, process: trio.Process | None, log: Path) -> None:
    deadline = trio.current_time() + (READY_SECONDS if process else 0)
    async with _status_client(target) as http:
        while not await _is_ready(http, target.ready):
            if process is not None and process.poll() is not None:
                raise TargetError(f"target {target.name!r} ended with status {process.returncode}; see {log}")
            if trio.current_time() >= deadline:
                raise TargetError(f"target {target.name!r} does not answer at {target.url}{target.ready}")
            await trio.sleep(POLL_SECONDS)


def _status_client(target: Target) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=target.url, headers=dict(target.dialect.headers), timeout=5, trust_env=False)


async def _is_ready(http: httpx.AsyncClient, path: str) -> bool:
    try:
        return (await http.get(path)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


async def _first_model(client: Client) -> str:
    listed = (await client.get("/v1/models") or {}).get("data") or [{}]
    return str(listed[0].get("id", "default"))
