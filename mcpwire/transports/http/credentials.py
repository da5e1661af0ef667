"""Checks of the URLs that receive credentials, and heads as text without secrets.

The checks are for MCP requests; `auth.url_policy` checks the URLs of authorization.
Credentials are sent only to their exact URL: scheme, host, port, path and query. A
redirect that `protocol.http_reply` allows is checked here before the next request.
Hooks, auth and transports of a user's httpx client may rewrite a URL, so a
`Destination` checks it after the hooks, and again before httpcore writes the head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import HTTPError
from mcpwire.protocol.http_reply import Request
from mcpwire.transports.http.target import is_credential
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwire.auth.errors import InsufficientScope, UrlRefused
    from mcpwire.errors import MCPError
    from mcpwire.transports.http.target import Http

MIN_SECRET_BYTES: Final = 8
"""Minimum length of a secret to find in other fields; a shorter match may be chance."""

_PORTS: Final = {b"http": 80, b"https": 443}

SHOWN_FIELDS: Final = frozenset(
    {
        *("accept", "accept-encoding", "access-control-allow-origin", "allow"),
        *("cache-control", "connection", "content-encoding", "content-length"),
        *("content-type", "date", "host", "keep-alive", "mcp-method", "mcp-name"),
        *("mcp-protocol-version", "retry-after", "server", "transfer-encoding"),
        *("user-agent", "vary", "www-authenticate", "x-powered-by"),
    }
)
"""Fields with visible values; the values of all other fields are hidden."""

_MAX_SHOWN_VALUE: Final = 400  # characters
_MAX_SHOWN_SCOPES: Final = 200  # characters


# Destinations of credentials


def wrong_url_error(http: Http, url: str) -> UrlRefused:
    """Return the error for credentials that would be sent to a wrong URL."""
    from mcpwire.auth.errors import UrlRefused

    masked = mask_url(url)
    return UrlRefused(
        f"{http}: no token or other credential is sent to '{masked}'",
        url=masked,
        rule="a token goes to the very URL that it is for",
    )


def redirect_request(http: Http, request: Request, target: str) -> Request:
    """Return the request for a redirect; raise if credentials would change the URL."""
    if target != request.target and _credential_fields(request):
        raise wrong_url_error(http, f"{http.parsed.origin}{target}")
    line, end, rest = request.start.partition(b"\r\n")
    verb, _, version = line.split(b" ")
    line = b" ".join((verb, target.encode("ascii"), version))
    return Request(line + end + rest, request.body)


def _credential_fields(request: Request) -> frozenset[tuple[bytes, bytes]]:
    """Return the fields that are likely to contain a secret."""
    return frozenset(
        field for field in request.fields if is_credential(field[0].decode("latin-1"))
    )


class Destination:
    """The only URL that one request's credentials may reach over a user's client."""

    def __init__(self, http: Http, request: Request, url: Any) -> None:
        self._http = http
        self._credential_fields = _credential_fields(request)
        # A hook may move a secret to a header with another name.
        self._secrets = [
            v for _, v in self._credential_fields if len(v) >= MIN_SECRET_BYTES
        ]
        self._url = _absolute_url(url.raw_scheme, url.raw_host, url.port, url.raw_path)
        self._hosts = [value for name, value in request.fields if name == b"host"]

    def check(self, request: Any) -> None:
        """Check an httpx request, after all hooks."""
        url = request.url
        target = request.extensions.get("target", url.raw_path)
        absolute = _absolute_url(url.raw_scheme, url.raw_host, url.port, target)
        self._check(absolute, request.headers.raw)

    def check_written(self, request: Any) -> None:
        """Check an httpcore request, before its head is written."""
        url = request.url
        absolute = _absolute_url(url.scheme, url.host, url.port, url.target)
        if not url.target.startswith(b"/"):  # the absolute form, for a proxy
            scheme, _, rest = url.target.partition(b"://")
            host, _, path = rest.partition(b"/")
            absolute = _absolute_url(scheme, host, None, b"/" + path)
        self._check(absolute, request.headers)

    def _check(
        self, destination: bytes, headers: Iterable[tuple[bytes, bytes]]
    ) -> None:
        fields = [(name.lower(), value) for name, value in headers]
        if self._credential_fields.isdisjoint(fields) and not any(
            secret in value for _, value in fields for secret in self._secrets
        ):
            return  # the client's own request, such as for a token
        hosts = [value for name, value in fields if name == b"host"]
        if destination == self._url:
            if hosts == self._hosts:
                return
            scheme, _, rest = destination.partition(b"://")
            path = b"/" + rest.partition(b"/")[2]
            destination = scheme + b"://" + b",".join(hosts) + path
        raise wrong_url_error(self._http, destination.decode("latin-1"))


def _absolute_url(scheme: bytes, host: bytes, port: int | None, target: bytes) -> bytes:
    if port is not None and port != _PORTS.get(scheme):
        host = b"%b:%d" % (host, port)
    return b"%b://%b%b" % (scheme, host, target)


# Missing scopes


def insufficient_scope_error(
    http: Http,
    required: Sequence[str],
    missing: Sequence[str],
    *,
    requested: Sequence[str] = (),
    fallback: str = "it does not say which",
) -> InsufficientScope:
    """Return the error for required scopes that are not granted."""
    from mcpwire.auth.errors import InsufficientScope

    return InsufficientScope(
        f"{http} requires scopes that are not granted: "
        f"{' '.join(missing)[:_MAX_SHOWN_SCOPES] or fallback}",
        required=required,
        scopes=requested,
    )


def missing_scope_error(http: Http, error: MCPError) -> InsufficientScope | None:
    """Return the error for a 403 with ``insufficient_scope``; ``None`` for others."""
    refusal = error if isinstance(error, HTTPError) else error.__cause__
    if not isinstance(refusal, HTTPError) or refusal.status != 403:
        return None
    from mcpwire.auth.discovery import read_denial

    denial = read_denial(refusal.status, refusal.headers)
    if denial.error != "insufficient_scope":
        return None
    required = denial.scopes or ()
    scope_error = insufficient_scope_error(
        http, required, required, fallback=str(error)
    )
    scope_error.__cause__ = error
    return scope_error


# Heads as text


def secret_segments(http: Http) -> list[str]:
    """Return the segments of the URL's path that variables of a configuration set."""
    written = getattr(http.url, "unexpanded", http.url)
    segments = http.parsed.path.split("/")
    secrets = {f"/{segment}" for segment in segments if segment not in written}
    return sorted(secrets, key=len, reverse=True)  # one may start as another one


def describe_request(request: Request, http: Http) -> str:
    """Return a request's head as text, one field per line."""
    target = request.target
    for secret in secret_segments(http):
        target = target.replace(secret, "/***")
    line = f"{request.verb} {mask_url(target)} HTTP/1.1"
    return "\n".join([line, *_visible_fields(request.fields)])


def describe_response(status: int, fields: Mapping[bytes, bytes]) -> str:
    """Return a response's head as text, one field per line."""
    return "\n".join([f"HTTP {status}", *_visible_fields(fields.items())])


def _visible_fields(fields: Iterable[tuple[bytes, bytes]]) -> list[str]:
    lines = []
    for raw_name, value in fields:
        name = raw_name.decode("latin-1").lower()
        is_shown = name in SHOWN_FIELDS
        text = value.decode("latin-1")[:_MAX_SHOWN_VALUE] if is_shown else "***"
        lines.append(f"{name}: {text}")
    return lines
