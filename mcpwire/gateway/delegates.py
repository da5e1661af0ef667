"""Asks a delegate for content after each successful call, and puts it in front.

Its failure never spoils a result: an error, or no answer in time, is no content.
"""

from __future__ import annotations

import asyncio
from hmac import compare_digest
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4
from weakref import WeakKeyDictionary

import attrs

from mcpwire.errors import InvalidParams, InvalidRequest, MCPError, ParseError
from mcpwire.gateway.splicing import (
    DEFAULT_TAG,
    STYLES,
    PendingBatch,
    can_splice,
    check_tag,
    splice,
)
from mcpwire.limits import DEFAULT_LIMITS, Limits, check_choice, check_timeout
from mcpwire.server.http.exchange import ClientGone, Exchange, HttpProblem
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.wire.json import encode, loads
from mcpwire.wire.jsonrpc import failure

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Hashable,
        Iterable,
        Mapping,
        Sequence,
    )

    from mcpwire.server.http.exchange import Receive, Scope, Send
    from mcpwire.server.request import RequestContext, Session

    Row = Sequence[tuple[Hashable, Mapping[str, Any]]]
    """One message: its content blocks, each with the id that confirms it."""
    Backend = Callable[[str], Awaitable[Sequence[Row]]]
    """Returns all rows of an agent that may still have to be delivered."""

__all__ = [
    "ContentDelegate",
    "NotifyApp",
    "QueueDelegate",
    "Splicer",
    "splicer_of",
]

logger = LimitedLogger("mcpwire")

TIMEOUT_S: Final = 30.0
"""How long a delegate may take, unless somebody says otherwise."""


class ContentDelegate(Protocol):
    """A source of content for the callers of tools."""

    async def read_pending(
        self, headers: Mapping[str, str], session_id: str | None
    ) -> PendingBatch | None:
        """Return the content that waits for the caller; ``None``: nothing.

        Called once after each successful call, one after the other for one session;
        what it raises is logged and means nothing. It may be cancelled.

        Args:
            headers: The call's header fields by lower-case name; no credentials.
            session_id: The session, which is a secret; ``None`` where there is none.
        """


class Splicer:
    """How a gateway asks its delegate; see the module's text.

    Args:
        delegate: The source of the content.
        style: ``"flat"``: rows one after the other; ``"separated"``: with an empty
            line between them.
        tag: What the content is wrapped in.
        skip_on_tool_error: Whether results with `isError` are left alone.
        timeout: How long the delegate may take, in seconds; ``None``: no limit.

    Attributes:
        withheld: Names, in lower case, of fields that the delegate does not see.

    Raises:
        TypeError: The delegate is none.
        ValueError: An option is wrong.
    """

    def __init__(
        self,
        delegate: ContentDelegate,
        *,
        style: str = "flat",
        tag: str = DEFAULT_TAG,
        skip_on_tool_error: bool = False,
        timeout: float | None = TIMEOUT_S,
    ) -> None:
        if not callable(getattr(delegate, "read_pending", None)):
            raise TypeError(
                f"a delegate needs read_pending(headers, session_id), got {delegate!r}"
            )
        self.delegate = delegate
        self._style = check_choice(style, "style", STYLES)
        self._tag = check_tag(tag)
        self._skips_errors = skip_on_tool_error
        self._timeout = check_timeout(timeout)
        self.withheld: frozenset[str] = frozenset()
        self._locks: WeakKeyDictionary[Session, asyncio.Lock] = WeakKeyDictionary()

    async def splice(
        self, result: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Return the result of a call, with what waits in front of it."""
        if not can_splice(result):
            return result
        if self._skips_errors and result.get("isError") is True:
            return result
        # Stateless requests wait for nothing: their client is not known here.
        session = request.session
        if session is None:
            return await self._spliced(result, request)
        async with self._locks.setdefault(session, asyncio.Lock()):
            return await self._spliced(result, request)

    async def _spliced(
        self, result: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        session = request.session
        id = session.id if session is not None else None
        try:
            async with asyncio.timeout(self._timeout):
                batch = await self.delegate.read_pending(self._shown(request), id)
            if batch is None:
                return result
            # What cannot be sent must not cost the result.
            encode([batch.token, [list(row) for row in batch.rows]])
            return splice(result, batch, style=self._style, tag=self._tag)
        except (asyncio.CancelledError, Exception) as error:  # whatever it raises
            # It may have been waiting for something that was cancelled, not we.
            task = asyncio.current_task()
            is_ours = task is None or task.cancelling()
            if isinstance(error, asyncio.CancelledError) and is_ours:
                raise
            logger.exception("the delegate failed; the result stays as it is")
            return result

    def _shown(self, request: RequestContext) -> Mapping[str, str]:
        """Return the fields of a request that a delegate may see."""
        fields = request.info.headers
        if not self.withheld:
            return fields
        return {k: v for k, v in fields.items() if k.lower() not in self.withheld}


def splicer_of(given: Any, *, withheld: Iterable[str] = ()) -> Splicer | None:
    """Return how a gateway asks what it was given as its delegate."""
    if given is None:
        return None
    splicer = given if isinstance(given, Splicer) else Splicer(given)
    splicer.withheld |= frozenset(withheld)
    return splicer


HEADER: Final = "X-Agent-Id"

MAX_ROWS: Final = 1_024
"""How many rows may wait for one agent."""


MAX_CONFIRMED: Final = 65_536
"""How many ids of what was delivered are remembered for one agent, the newest."""


@attrs.define
class _Agent:
    confirmed: dict[Hashable, None] = attrs.field(factory=dict)
    pending: dict[str, tuple[Hashable, ...]] = attrs.field(factory=dict)
    rows: list[Row] = attrs.field(factory=list)

    def confirm(self, ids: Iterable[Hashable]) -> None:
        """Remember what was delivered, and let go of what was delivered whole."""
        self.confirmed.update(dict.fromkeys(ids))
        self.rows = [
            row for row in self.rows if any(id not in self.confirmed for id, _ in row)
        ]
        while len(self.confirmed) > MAX_CONFIRMED:
            del self.confirmed[next(iter(self.confirmed))]


class QueueDelegate:
    """Rows of content for agents, in memory or from a backend; see the module's text.

    An agent is named by a header field of the call. What is confirmed goes; rows of a
    backend that are confirmed, or were read and are not, are left out.

    Args:
        header: The field that names the agent; its case does not matter.
        backend: Where rows come from, beside those of `notify`.
        timeout: How long it may take, in seconds; ``None``: no limit.
        max_rows: How many rows of `notify` may wait for one agent.
        max_agents: How many agents there may be.

    Raises:
        ValueError: An option is wrong.
    """

    def __init__(
        self,
        *,
        header: str = HEADER,
        backend: Backend | None = None,
        timeout: float | None = TIMEOUT_S,
        max_rows: int = MAX_ROWS,
        max_agents: int = 10_000,
    ) -> None:
        self.header = header.lower()
        self._backend = backend
        self._timeout = check_timeout(timeout)
        self._max_rows = max_rows
        self._max_agents = max_agents
        self._agents: dict[str, _Agent] = {}
        self._ids = count(1)

    # For the runner of agents...

    def register(self, agent: str, confirmed: Iterable[Hashable] = ()) -> None:
        """Begin a run of an agent that has already received those ids.

        What an earlier run read and did not confirm is delivered again.

        Raises:
            ValueError: There are too many agents.
        """
        if agent not in self._agents and len(self._agents) >= self._max_agents:
            raise ValueError(f"there may be {self._max_agents} agents at most")
        known = self._agents.setdefault(agent, _Agent())
        known.pending.clear()
        known.confirm(confirmed)

    def unregister(self, agent: str, *, forget: bool = False) -> None:
        """End a run of an agent; what was not confirmed is delivered in the next one.

        Args:
            agent: The agent; one that nobody knows is fine.
            forget: Whether there is no next one: nothing is kept of it then.
        """
        if forget:
            self._agents.pop(agent, None)
        elif (known := self._agents.get(agent)) is not None:
            known.pending.clear()

    def confirm(self, token: str) -> tuple[Hashable, ...]:
        """Take note that what was read under a token arrived; return the ids of it.

        A second time, or for a token that nobody knows, it is nothing.
        """
        for known in self._agents.values():
            ids = known.pending.pop(token, None)
            if ids is not None:
                known.confirm(ids)
                return ids
        return ()

    # For the source of content...

    def notify(self, agent: str, *blocks: Mapping[str, Any]) -> bool:
        """Add a row for an agent; tell whether it is registered, else nothing is kept.

        Raises:
            LocalProtocolError: A block has no JSON form.
            ValueError: Too many rows wait for it.
        """
        known = self._agents.get(agent)
        if known is None:
            return False
        encode([dict(block) for block in blocks])
        if len(known.rows) >= self._max_rows:
            raise ValueError(f"{self._max_rows} rows wait for the agent already")
        if blocks:
            known.rows.append(tuple((next(self._ids), block) for block in blocks))
        return True

    def is_waiting(self, agent: str) -> bool:
        """Tell whether something of `notify` waits for an agent."""
        known = self._agents.get(agent)
        return known is not None and bool(_fresh(known, known.rows))

    def drain(self, agent: str) -> list[list[Mapping[str, Any]]] | None:
        """Return what waits for an agent, as delivered; ``None``: nobody knows it."""
        known = self._agents.get(agent)
        if known is None:
            return None
        rows = _fresh(known, known.rows)
        taken = {id for row in rows for id, _ in row}
        known.rows = [row for row in known.rows if taken.isdisjoint(i for i, _ in row)]
        return [[block for _, block in row] for row in rows]

    # The gateway...

    async def read_pending(
        self,
        headers: Mapping[str, str],
        session_id: str | None,
    ) -> PendingBatch | None:
        """Return what waits for the agent that called, under a new token.

        ``None`` where nothing does, where the backend fails, or does not answer in
        time.
        """
        agent = _find(headers, self.header)
        known = None if agent is None else self._agents.get(agent)
        if agent is None or known is None:
            return None
        rows = [*await self._read(agent), *known.rows]
        fresh = _fresh(known, rows)
        if not fresh:
            return None
        token = str(uuid4())
        known.pending[token] = tuple(id for row in fresh for id, _ in row)
        return PendingBatch(token, [[block for _, block in row] for row in fresh])

    async def _read(self, agent: str) -> Sequence[Row]:
        if self._backend is None:
            return ()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._backend(agent)
        except Exception:  # whatever the backend raises
            logger.exception("the backend of the delegate failed")
            return ()


def _fresh(known: _Agent, rows: Iterable[Row]) -> list[Row]:
    """Return what of some rows was not delivered, and is not on its way."""
    taken = {id for ids in known.pending.values() for id in ids}
    taken.update(known.confirmed)
    fresh = [tuple(each for each in row if each[0] not in taken) for row in rows]
    return [row for row in fresh if row]


def _find(headers: Mapping[str, str], name: str) -> str | None:
    for key, value in headers.items():
        if key.lower() == name:
            return value
    return None


SHORTEST_TOKEN: Final = 16
"""Characters of a token that nobody guesses."""

_JSON: Final = "application/json"


class NotifyApp:
    """The endpoints as an ASGI application, to be mounted somewhere.

    Args:
        delegate: The delegate that receives them.
        token: The bearer token that a client has to present. Its holder says
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
        """Answer what the web server brings."""
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
        if type(blocks) is not list or not all(
            type(each) is dict and type(each.get("type")) is str for each in blocks
        ):
            raise HttpProblem(400, InvalidParams("expected an array of content blocks"))
        try:
            known = agent is not None and self._delegate.notify(agent, *blocks)
        except (MCPError, ValueError) as error:
            raise HttpProblem(429, InvalidRequest(str(error))) from None
        if not known:
            raise _unknown()
        await exchange.reply(202)


def _unknown() -> HttpProblem:
    return HttpProblem(404, "the agent is unknown")
