"""The policy for requests of web pages.  A browser sends what any page tells it to, so a local server needs a policy.

There are three checks, each made before the body is read.  A client that is no browser notices none of them.

- **Origin.**  A browser says which page a request comes from (the Fetch standard, https://fetch.spec.whatwg.org).  A
  page of another origin than the server's is refused unless `--allow-origin` names it; a page that is named gets the
  headers that CORS needs.  Images, scripts and frames come without `Origin`; what is known of them is whether they are
  for another site's page (Fetch Metadata, https://www.w3.org/TR/fetch-metadata), and then they are refused, too.  A
  link to this server, which somebody follows, is served.
- **Host.**  A page whose name was made to point at this machine ("DNS rebinding") has the same origin as the server.
  So on a connection to a loopback address the name in `Host` has to be one that nobody else can give away: an IP
  address, `localhost`, a name under `.localhost` (RFC 6761) or `.internal` (reserved for private use, such as
  `host.docker.internal`), or one that `--host` or `--allow-host` names.  On other addresses every name is served:
  whoever listens there has names of their own.  A request without a name (HTTP/1.0), or whose target has another name
  than `Host`, is from no browser.
- **Content type.**  A page can send a form or plain text without a preflight request, so JSON has to be declared as
  `application/json`.  A form's type, which is what `curl -d` sends, and no type at all are taken for JSON if no browser
  has left its marks (`Origin`, `Sec-Fetch-Site`), which every browser does with a POST.
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
"""Stands for every origin or every host."""

_PORTS = {"http": "80", "https": "443"}
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_TYPED_METHODS = ("POST", "PUT", "PATCH")
_FORM = ("", "application/x-www-form-urlencoded")
_NEVER_JSON = ("text/plain", "multipart/form-data")
_EXPOSED = (
    "x-request-id, retry-after, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens"
)
_PREFLIGHT_SECONDS = "600"


class BrowserPolicyError(CedeError):
    """A value of `--allow-origin` or `--allow-host` is no origin, or no name; the message says which."""


class RequestRefused(CedeError):
    """The policy does not allow a request.

    Args:
        message: why.
        status: of the response.
        code: of the error object.
    """

    kind = "invalid_request_error"

    def __init__(self, message: str, status: int, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class BrowserPolicy:
    """The origins and hosts that are allowed beside those that always are.

    Attributes:
        origins: `scheme://host[:port]`, or `null`, as browsers write them; `*` for all.
        hosts: names without a port, in lower case; `*` for all.
    """

    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, origins: Iterable[str], hosts: Iterable[str]) -> BrowserPolicy:
        """Make a policy of the command line's values.

        Raises:
            BrowserPolicyError: one is no origin, or no name.
        """
        return cls(frozenset(map(_read_origin, origins)), frozenset(map(_read_host, hosts)))

    def check(self, method: str, local: str | None, headers: Headers) -> None:
        """Check a request.

        Args:
            method: HTTP's.
            local: the address that the client connected to; None where it is not known.
            headers: of the request.

        Raises:
            RequestRefused: the policy does not allow it.
        """
        host = headers.get("Host", "")  # over HTTP/2 `:authority`
        self._check_host(host, local)
        self._check_origin(method, host, headers)
        if method in _TYPED_METHODS:
            _check_type(headers)

    def cors_headers(self, origin: str | None) -> dict[str, str]:
        """Return the headers with which a page of `origin` can read a response, also a refusal."""
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
        if {name, ANY} & self.hosts or local is None or _is_unambiguous(name) or not _is_loopback(local):
            return
        message = f"This server is not asked for by the name {name!r}; --allow-host {name} would serve it."
        raise RequestRefused(message, 403, "host_not_allowed")

    def _check_origin(self, method: str, host: str, headers: Headers) -> None:
        if ANY in self.origins:
            return
        origin = headers.get("Origin")
        if origin is None:
            if headers.get("Sec-Fetch-Site") in ("cross-site", "same-site") and not _follows_link(method, headers):
                raise RequestRefused("A page of another origin may not ask this server.", 403, "origin_not_allowed")
        elif origin.lower() not in self.origins and not _is_same(origin.lower(), host.lower()):
            message = f"A page of {origin} may not ask this server; --allow-origin {origin} would serve it."
            raise RequestRefused(message, 403, "origin_not_allowed")


def preflight_headers(headers: Headers) -> dict[str, str] | None:
    """Return the headers of the response to a preflight request, beside the CORS headers; None for other requests."""
    if "Access-Control-Request-Method" not in headers:
        return None
    allowed = {"Access-Control-Allow-Methods": "GET, POST, DELETE", "Access-Control-Max-Age": _PREFLIGHT_SECONDS}
    if wanted := headers.get("Access-Control-Request-Headers"):
        allowed["Access-Control-Allow-Headers"] = wanted
    if headers.get("Access-Control-Request-Private-Network") == "true":
        allowed["Access-Control-Allow-Private-Network"] = "true"
    return allowed


def host_name(host: str) -> str:
    """Return the name in a `Host` header, in lower case and without port, brackets and last dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    if colon and (port.isdigit() or not port):
        host = name
    return host.removesuffix(".")


def _is_unambiguous(name: str) -> bool:
    """Return whether nobody else can make a name point to this machine."""
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
    """Return whether a page's origin is the host it asks.  The scheme may differ, since a proxy may end TLS."""
    scheme, _, origin_host = origin.partition("://")
    port = _PORTS.get(scheme)
    return port is not None and bool(origin_host) and _with_port(origin_host, port) == _with_port(host, port)


def _with_port(host: str, default: str) -> tuple[str, str]:
    _, colon, port = host.rpartition("]")[2].rpartition(":")
    return host_name(host), port if colon and port else default


def _follows_link(method: str, headers: Headers) -> bool:
    """Return whether a request is for a page in place of the one that names it, and not for a part of that one."""
    to_look = method in _SAFE_METHODS and headers.get("Sec-Fetch-Mode") == "navigate"
    return to_look and headers.get("Sec-Fetch-Dest", "document") == "document"


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
