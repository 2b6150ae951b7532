"""A proxy of either kind, run with what `deploy/` says about it.

It inherits the socket that it listens on, so nobody has to guess a free port, and a client that comes before the proxy
is ready waits in the socket's queue.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.server import PATIENCE, ROOT, Server

SERVER = "127.0.0.1:8000"
"""Where the server is, as the files in `deploy/` say."""
NGINX_AROUND = """
daemon off;
{user}
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    scgi_temp_path {folder}/scgi;
    uwsgi_temp_path {folder}/uwsgi;
{deployed}
}}
"""


@dataclass(frozen=True)
class Kind:
    """A kind of proxy.

    Attributes:
        name: of its program.
        file: what is deployed, below `deploy/`.
        listen: how the file says where it listens.
    """

    name: str
    file: str
    listen: str


NGINX = Kind("nginx", "nginx/cede.conf", "listen 8080;")
HAPROXY = Kind("haproxy", "haproxy/cede.cfg", "bind :8080 ")


class Proxied(Server):
    """A server, seen through a proxy."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"


@contextmanager
def proxy(kind: Kind, server: Server, folder: Path) -> Iterator[Proxied]:
    """Run a proxy in front of a server.  Skips the test where it is not installed."""
    program = shutil.which(kind.name) or shutil.which(kind.name, path="/usr/sbin:/usr/local/sbin:/opt/homebrew/bin")
    if program is None:
        pytest.skip(f"{kind.name} is not installed")
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port: int = listener.getsockname()[1]
        config = folder / kind.name
        config.write_text(_config(kind, server, folder, listener), encoding="utf-8")
        arguments = {
            "nginx": ["-p", str(folder), "-e", str(folder / "error.log"), "-c", str(config)],
            "haproxy": ["-db", "-f", str(config)],
        }[kind.name]
        environment = os.environ | {"NGINX": f"{listener.fileno()};"}  # how nginx is told of a socket that is open
        log = (folder / "log").open("w+", encoding="utf-8")
        with log:
            process = subprocess.Popen(
                [program, *arguments], env=environment, pass_fds=[listener.fileno()], stdout=log, stderr=log
            )
    try:
        yield Proxied(port)
        assert process.poll() is None, (folder / "log").read_text(encoding="utf-8")
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _config(kind: Kind, server: Server, folder: Path, listener: socket.socket) -> str:
    deployed = (ROOT / "deploy" / kind.file).read_text(encoding="utf-8")
    assert deployed.count(SERVER) == deployed.count(kind.listen) == 1
    host, port = server.address
    deployed = deployed.replace(SERVER, f"{host}:{port}")
    if kind is HAPROXY:
        return deployed.replace(kind.listen, f"bind fd@{listener.fileno()} ")
    deployed = deployed.replace(kind.listen, f"listen 127.0.0.1:{listener.getsockname()[1]};")
    # Only root may, and has to, say whose its workers are: they write to this folder.
    return NGINX_AROUND.format(user="user root;" if os.geteuid() == 0 else "", folder=folder, deployed=deployed)
