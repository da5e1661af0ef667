"""The endpoints by which others give a `QueueDelegate` something to deliver.

::

    POST /notify          an array of content blocks, one row: 202; 404: unknown agent
    GET  /notify          what waits, an array of rows, and takes it as delivered
    GET  /notify/queued   whether anything waits: true or false

The agent is named by the header field of the delegate.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InvalidParams, InvalidRequest, MCPError, ParseError
from mcpwire.limits import DEFAULT_LIMITS, Limits
from mcpwire.server.http.exchange import ClientGone, Exchange, HttpProblem
from mcpwire.wire.json import encode, loads
from mcpwire.wire.jsonrpc import failure

if TYPE_CHECKING:
    from mcpwire.gateway.delegating.queue import QueueDelegate
    from mcpwire.server.http.exchange import Receive, Scope, Send

__all__ = ["NotifyApp"]

SHORTEST_TOKEN: Final = 16
"""Characters of a token that nobody guesses."""

_JSON: Final = "application/json"


class NotifyApp:
    """The endpoints as an ASGI application, to be mounted somewhere.

    Args:
        delegate: Whose rows they are.
        token: What a client has to present as its bearer token. Whoever has it says
            what models are given to read.
        path: Where the first endpoint is.
        limits: Bounds on a body.

    Raises:
        ValueError: The token is too short to be a secret.
    """

    def __init__(
        self,
        delegate: QueueDelegate,
        *,
        token: str,
        path: str = "/notify",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if len(token) < SHORTEST_TOKEN:
            raise ValueError(
                f"the token must be a secret of {SHORTEST_TOKEN} characters or more"
            )
        self._delegate = delegate
        self._expected = f"Bearer {token}".encode()
        self._path = path
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"unknown kind of ASGI scope: {scope['type']!r}")
        exchange = Exchange(scope, receive, send, self._limits)
        try:
            exchange.check_framing()
            await self._answer(exchange)
        except ClientGone:
            pass
        except HttpProblem as problem:
            message = failure(None, problem.error)
            await exchange.reply(problem.status, message, problem.headers)

    async def _answer(self, exchange: Exchange) -> None:
        given = exchange.headers.get("authorization") or ""
        if not compare_digest(given.encode(errors="replace"), self._expected):
            raise HttpProblem(401, "the token is missing or another one")
        path = exchange.path.removeprefix(exchange.scope.get("root_path") or "")
        agent = exchange.headers.get(self._delegate.header)
        if path == self._path and exchange.verb == "POST":
            await self._add(exchange, agent)
        elif path == self._path and exchange.verb == "GET":
            rows = None if agent is None else self._delegate.drain(agent)
            if rows is None:
                raise _unknown()
            await exchange.reply_bytes(200, encode([[*row] for row in rows]), _JSON)
        elif path == f"{self._path}/queued" and exchange.verb == "GET":
            waits = agent is not None and self._delegate.is_waiting(agent)
            await exchange.reply_bytes(200, encode(waits), _JSON)
        else:
            raise HttpProblem(404, "there is nothing at this path")

    async def _add(self, exchange: Exchange, agent: str | None) -> None:
        try:
            blocks: Any = loads(await exchange.body())
        except ValueError:
            raise HttpProblem(400, ParseError("the body is not JSON")) from None
        if type(blocks) is not list or not all(map(_is_block, blocks)):
            raise HttpProblem(400, InvalidParams("expected an array of content blocks"))
        try:
            known = agent is not None and self._delegate.notify(agent, *blocks)
        except (MCPError, ValueError) as error:
            raise HttpProblem(429, InvalidRequest(str(error))) from None
        if not known:
            raise _unknown()
        await exchange.reply(202)


def _is_block(item: Any) -> bool:
    return type(item) is dict and type(item.get("type")) is str


def _unknown() -> HttpProblem:
    return HttpProblem(404, "nobody knows the agent")
