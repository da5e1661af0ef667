"""Who may come in: by Host and Origin, by what a browser asks first, by credentials.

The rules for Host and Origin are in `protocol.request_validation`, those for tokens in
``server.auth``; here they are applied to an exchange.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mcpwire.errors import InvalidRequest, RPCError
from mcpwire.protocol.request_validation import OriginPolicy
from mcpwire.server.auth.challenges import HttpRefusal
from mcpwire.server.auth.credentials import CREDENTIALS
from mcpwire.server.http.exchange import HttpProblem
from mcpwire.wire.headers import is_field_value, is_token

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.server.auth.resource_server import ResourceServer
    from mcpwire.server.http.exchange import Exchange

__all__ = ["Door"]

_ORIGIN: Final = "origin"
_ASKED_VERB: Final = "access-control-request-method"
_ASKED_NAMES: Final = "access-control-request-headers"

_EXPOSED: Final = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After"
_VERBS: Final = b"POST, GET, DELETE"
_REMEMBERED_S: Final = b"600"


class Door:
    """Lets requests in; see the module's text.

    Args:
        hosts: The names that the server is asked by (`OriginPolicy`).
        origins: The pages that may ask (`OriginPolicy`).
        cors: Whether browsers are told that those pages may ask and read the answers;
            origins, which are allowed then, stand for ``True``.
        auth: Who may ask at all.
        bound: The name that the server was told to listen on.

    Raises:
        ValueError: A host or origin is none.
    """

    def __init__(
        self,
        *,
        hosts: Iterable[str] | None = None,
        origins: Iterable[str] | None = None,
        cors: bool | Iterable[str] = False,
        auth: ResourceServer | None = None,
        bound: str | None = None,
    ) -> None:
        if not isinstance(cors, bool):
            origins = (*(origins or ()), *_several(cors))
        self._admission = OriginPolicy(
            None if hosts is None else _several(hosts),
            None if origins is None else _several(origins),
        )
        self._has_cors = cors is not False
        self._auth = auth
        # Also the name that its own resource has: clients know it by that one.
        resource = None if auth is None else urlsplit(auth.resource).hostname
        self._names = tuple(name for name in (bound, resource) if name)
        self._credentials = CREDENTIALS if auth is None else auth.credential_headers

    def check_origin(self, exchange: Exchange) -> None:
        """Check where a request comes from.

        Raises:
            HttpProblem: It comes from where it must not.
        """
        headers = exchange.headers.joined
        origin = headers.get(_ORIGIN)
        host = headers.get("host")
        server = exchange.scope.get("server")
        refuse = self._admission.refusal
        refusal = refuse(host, origin, server[0] if server else None)
        if refusal is not None and any(
            refuse(host, origin, name) is None for name in self._names
        ):
            refusal = None
        if refusal is not None:
            # 2026-07-28 streamable-http, "Security Endpoint": 403, to every verb.
            raise HttpProblem(403, refusal)
        if self._has_cors and origin is not None and is_field_value(origin):
            exchange.extra += [
                (b"access-control-allow-origin", origin.encode("latin-1")),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"Origin"),
            ]

    def is_preflight(self, exchange: Exchange) -> bool:
        """Tell whether a browser asks what it may ask, and is to be told."""
        return (
            exchange.verb == "OPTIONS"
            and self._has_cors
            and exchange.headers.get(_ORIGIN) is not None
            and exchange.headers.get(_ASKED_VERB) is not None
        )

    async def answer_preflight(self, exchange: Exchange) -> None:
        """Tell a browser that it may send what MCP needs."""
        asked = (exchange.headers.get(_ASKED_NAMES) or "").split(",")
        # A tool's arguments may have headers of any name, so there is no list of them.
        names = [name for each in asked if is_token(name := each.strip(" \t"))]
        exchange.extra += [
            (b"access-control-allow-methods", _VERBS),
            (b"access-control-allow-headers", ", ".join(names).encode("ascii")),
            (b"access-control-max-age", _REMEMBERED_S),
        ]
        await exchange.reply(204)

    @property
    def has_auth(self) -> bool:
        """Whether it matters who asks."""
        return self._auth is not None

    async def identify(self, exchange: Exchange) -> None:
        """Find out who asks, and set the exchange's `principal`.

        Raises:
            HttpProblem: Nobody who may.
        """
        exchange.credentials = self._credentials
        if self._auth is None:
            return
        from mcpwire.server.auth.principal import client_address  # few have auth

        client = exchange.scope.get("client")
        client_address.set(client[0] if client else "")
        try:
            exchange.principal = await self._auth.authenticate(
                exchange.headers, exchange.verb, _url_of(exchange)
            )
        except HttpRefusal as refusal:
            raise as_problem(refusal) from refusal


def as_problem(refusal: HttpRefusal) -> HttpProblem:
    """Return a refusal that knows its status as a problem of HTTP."""
    error = refusal if isinstance(refusal, RPCError) else InvalidRequest(str(refusal))
    return HttpProblem(refusal.http_status, error, refusal.http_headers)


def _url_of(exchange: Exchange) -> str:
    """Return the URL that was asked for, as far as a server knows it."""
    scope: Mapping[str, Any] = exchange.scope
    query: str = scope.get("query_string", b"").decode("latin-1")
    host = exchange.headers.get("host") or ""
    url = f"{scope.get('scheme', 'http')}://{host}{scope['path']}"
    return f"{url}?{query}" if query else url


def _several(values: Iterable[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)
