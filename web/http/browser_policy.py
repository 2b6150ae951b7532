"""Who may ask: a browser sends what any page tells it to, and a local server must not do what a page in a tab wants.

Three refusals, each before the body is read; a client that is no browser notices none of them.

- **Origin.**  A browser says which page a request comes from.  A page of another origin than the one it asks is refused
  unless `--allow-origin` names it; one that is named gets the answers that CORS wants.
- **Host.**  A page whose name was made to point here ("DNS rebinding") is of the same origin as the server.  So on a
  connection to a loopback address the name that was asked for has to be one that nobody else can give away: an IP
  address, `localhost`, a name under `.localhost` or `.internal` (reserved for private use: `host.docker.internal`), or
  what `--host` or `--allow-host` says.  On other addresses every name goes: who listens there has names of his own.
  A request without a name (HTTP/1.0), or with one in its target that is not its `Host`, is from no browser.
- **Content type.**  A page can send a form, or plain text, without asking first, so JSON has to say that it is
  `application/json`.  A form's type, which is what `curl -d` sends, and none at all are taken for JSON where no browser
  has left its marks (`Origin`, `Sec-Fetch-Site`), as every one does with a POST.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runtime.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from werkzeug.datastructures import Headers

ANY = "*"

_PORTS = {"http": "80", "https": "443"}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_TYPED_METHODS = ("POST", "PUT", "PATCH")
_FORM = ("", "application/x-www-form-urlencoded")
_NEVER_JSON = ("text/plain", "multipart/form-data")
_EXPOSED = "x-request-id, retry-after"
_PREFLIGHT_SECONDS = "600"


class BrowserPolicyError(CedeError):
    """What `--allow-origin` or `--allow-host` says is no origin, or no name; the message says which."""


class RequestRefused(CedeError):
    """A page asks that may not, or in a way that it may not."""

    kind = "invalid_request_error"

    def __init__(self, message: str, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class BrowserPolicy:
    """Whom to serve beside those who need no leave.

    Attributes:
        origins: `scheme://host[:port]`, or `null`, as browsers say them; `*` for any.
        hosts: names without a port, in lower case; `*` for any.
    """

    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, origins: Iterable[str], hosts: Iterable[str]) -> BrowserPolicy:
        """As the command line says it.  Raises BrowserPolicyError."""
        return cls(frozenset(map(_read_origin, origins)), frozenset(map(_read_host, hosts)))

    def check(self, method: str, local: str | None, headers: Headers) -> None:
        """Raise RequestRefused where a request may not be served.  `local` is the address that it came to."""
        host = headers.get("Host", "")  # over HTTP/2 `:authority`
        self._check_host(host, local)
        self._check_origin(method, host, headers.get("Origin"), headers.get("Sec-Fetch-Site"))
        if method in _TYPED_METHODS:
            _check_type(headers)

    def cors_headers(self, origin: str | None) -> dict[str, str]:
        """The headers of every answer to a page of `origin`, refusals too, so that the page can read it."""
        if not self.origins:
            return {}
        if ANY in self.origins:
            return {"Access-Control-Allow-Origin": ANY, "Access-Control-Expose-Headers": _EXPOSED}
        if origin is None or origin.lower() not in self.origins:
            return {"Vary": "Origin"}
        named = {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": _EXPOSED}
        return named | {"Vary": "Origin"}

    def _check_host(self, host: str, local: str | None) -> None:
        name = host_name(host)
        if {name, ANY} & self.hosts or local is None or not _is_loopback(local) or _is_unambiguous(name):
            return
        message = f"This server is not asked for by the name {name!r}; --allow-host {name} would serve it."
        raise RequestRefused(message, 403, "host_not_allowed")

    def _check_origin(self, method: str, host: str, origin: str | None, site: str | None) -> None:
        if ANY in self.origins:
            return
        if origin is None:
            if site in ("cross-site", "same-site") and method not in _SAFE_METHODS:
                raise RequestRefused("A page of another origin may not ask this server.", 403, "origin_not_allowed")
        elif origin.lower() not in self.origins and not _is_same(origin.lower(), host.lower()):
            message = f"A page of {origin} may not ask this server; --allow-origin {origin} would serve it."
            raise RequestRefused(message, 403, "origin_not_allowed")


def preflight_headers(headers: Headers) -> dict[str, str] | None:
    """What a browser that asks before it sends is told, beside `BrowserPolicy.cors`; None where it does not ask."""
    if "Access-Control-Request-Method" not in headers:
        return None
    answer = {"Access-Control-Allow-Methods": "GET, POST, DELETE", "Access-Control-Max-Age": _PREFLIGHT_SECONDS}
    if wanted := headers.get("Access-Control-Request-Headers"):
        answer["Access-Control-Allow-Headers"] = wanted
    if headers.get("Access-Control-Request-Private-Network") == "true":
        answer["Access-Control-Allow-Private-Network"] = "true"
    return answer


def host_name(host: str) -> str:
    """The name in a `Host`, in lower case and without its port, brackets and last dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    if colon and (port.isdigit() or not port):
        host = name
    return host.removesuffix(".")


def _is_unambiguous(name: str) -> bool:
    """Whether a name cannot be made to point here by somebody else."""
    if name in ("", "localhost") or name.endswith((".localhost", ".internal")):
        return True
    return _address(name) is not None


def _is_loopback(address: str) -> bool:
    found = _address(address)
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found is not None and found.is_loopback


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_same(origin: str, host: str) -> bool:
    """Whether a page's origin is the host it asks.  The scheme may differ: a proxy may have taken the TLS off."""
    scheme, _, asker = origin.partition("://")
    port = _PORTS.get(scheme)
    return port is not None and bool(asker) and _with_port(asker, port) == _with_port(host, port)


def _with_port(host: str, default: str) -> tuple[str, str]:
    _, colon, port = host.rpartition("]")[2].rpartition(":")
    return host_name(host), port if colon and port else default


def _check_type(headers: Headers) -> None:
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    of_browser = "Origin" in headers or headers.get("Sec-Fetch-Site") not in (None, "none")
    if kind in _NEVER_JSON or (kind in _FORM and of_browser):
        message = f"Content-Type is {kind or 'missing'}: it should be application/json."
        raise RequestRefused(message, 415, "unsupported_media_type")


def _read_origin(given: str) -> str:
    origin = given.strip().lower().removesuffix("/")
    if origin in (ANY, "null"):
        return origin
    parts = urlsplit(origin)
    if not (parts.scheme and parts.netloc) or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        raise BrowserPolicyError(f"--allow-origin {given}: not an origin, such as http://localhost:3000")
    return origin


def _read_host(given: str) -> str:
    name = given.lower() if _address(given) else host_name(given)
    if not name or "/" in name:
        raise BrowserPolicyError(f"--allow-host {given}: not a name, such as llm.example.com")
    return name
