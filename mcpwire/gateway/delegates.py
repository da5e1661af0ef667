"""Content that a delegate adds in front of the results of tool calls.

The delegate is called after each successful call. If it fails, the result is kept.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
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
    """One message: its content blocks, each with an id to confirm it."""
    Backend = Callable[[str], Awaitable[Sequence[Row]]]
    """Returns all rows of an agent that may be undelivered."""

__all__ = ["ContentDelegate", "NotifyApp", "QueueDelegate", "Splicer", "make_splicer"]

logger = LimitedLogger("mcpwire")

TIMEOUT_S: Final = 30.0
"""Default time limit of a delegate, in seconds."""


class ContentDelegate(Protocol):
    """A source of content for the callers of tools."""

    async def read_pending(
        self, headers: Mapping[str, str], session_id: str | None
    ) -> PendingBatch | None:
        """Return the content that is pending for the caller; ``None``: no content.

        Called once after each successful call, never concurrently for one session; an
        exception is logged and means no content. The call may be cancelled.

        Args:
            headers: The call's header fields by lower-case name, without credentials.
            session_id: The id of the session, a secret; ``None`` without a session.
        """


class Splicer:
    """Adds the content of a delegate to the results of tool calls.

    Args:
        delegate: The source of the content.
        style: ``"flat"``: rows one after the other; ``"separated"``: with an empty
            line between them.
        tag: The name in the texts before and after the content.
        skip_on_tool_error: Whether results with `isError` are left unchanged.
        timeout: Time limit of the delegate, in seconds; ``None``: no limit.

    Attributes:
        withheld: Lower-case names of header fields that the delegate does not get.

    Raises:
        TypeError: The delegate has no method `read_pending`.
        ValueError: An option is invalid.
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
        """Return the result of a call with the pending content in front."""
        if not can_splice(result):
            return result
        if self._skips_errors and result.get("isError") is True:
            return result
        # Without a session the client is unknown, so its calls cannot be serialized.
        session = request.session
        id = session.id if session is not None else None
        lock: Any = nullcontext()
        if session is not None:
            lock = self._locks.setdefault(session, asyncio.Lock())
        headers = self._visible_headers(request)
        try:
            async with lock, asyncio.timeout(self._timeout):
                batch = await self.delegate.read_pending(headers, id)
            if batch is None:
                return result
            # Content without a JSON form must not spoil the result.
            encode([batch.token, [list(row) for row in batch.rows]])
            return splice(result, batch, style=self._style, tag=self._tag)
        except (asyncio.CancelledError, Exception) as error:  # of any kind
            # The delegate may have awaited a cancelled task: then this call continues.
            task = asyncio.current_task()
            is_cancelled = task is None or task.cancelling()
            if isinstance(error, asyncio.CancelledError) and is_cancelled:
                raise
            logger.exception("the delegate failed; the result stays as it is")
            return result

    def _visible_headers(self, request: RequestContext) -> Mapping[str, str]:
        """Return the header fields of a request that the delegate gets."""
        fields = request.info.headers
        if not self.withheld:
            return fields
        return {k: v for k, v in fields.items() if k.lower() not in self.withheld}


def make_splicer(delegate: Any, *, withheld: Iterable[str] = ()) -> Splicer | None:
    """Return the splicer for a gateway's option ``delegate``, if one is given."""
    if delegate is None:
        return None
    splicer = delegate if isinstance(delegate, Splicer) else Splicer(delegate)
    splicer.withheld |= frozenset(withheld)
    return splicer


HEADER: Final = "X-Agent-Id"

MAX_ROWS: Final = 1_024
"""Default maximum of rows pending for one agent."""


MAX_CONFIRMED: Final = 65_536
"""Maximum of confirmed ids kept for one agent; the oldest are discarded."""


@attrs.define
class _Agent:
    confirmed: dict[Hashable, None] = attrs.field(factory=dict)
    pending: dict[str, tuple[Hashable, ...]] = attrs.field(factory=dict)
    rows: list[Row] = attrs.field(factory=list)

    def confirm(self, ids: Iterable[Hashable]) -> None:
        """Record confirmed ids, and remove rows with all blocks confirmed."""
        self.confirmed.update(dict.fromkeys(ids))
        self.rows = [
            row for row in self.rows if any(id not in self.confirmed for id, _ in row)
        ]
        while len(self.confirmed) > MAX_CONFIRMED:
            del self.confirmed[next(iter(self.confirmed))]


class QueueDelegate:
    """A delegate with a queue of content for each agent, in memory or from a backend.

    A header field of the call names the agent. A block that is confirmed, or was read
    in the agent's current run, is not delivered again.

    Args:
        header: The name of this header field, case-insensitive.
        backend: A source of further rows, in addition to those of `notify`.
        timeout: Time limit of the backend, in seconds; ``None``: no limit.
        max_rows: Maximum of rows of `notify` pending for one agent.
        max_agents: Maximum of registered agents.

    Raises:
        ValueError: An option is invalid.
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

    # Runs of agents

    def register(self, agent: str, confirmed: Iterable[Hashable] = ()) -> None:
        """Start a run of an agent that has received the blocks with `confirmed` ids.

        Content that an earlier run read and did not confirm is delivered again.

        Raises:
            ValueError: There are too many agents.
        """
        if agent not in self._agents and len(self._agents) >= self._max_agents:
            raise ValueError(f"at most {self._max_agents} agents are allowed")
        state = self._agents.setdefault(agent, _Agent())
        state.pending.clear()
        state.confirm(confirmed)

    def unregister(self, agent: str, *, forget: bool = False) -> None:
        """End a run of an agent; the next run delivers all unconfirmed content.

        Args:
            agent: The agent; an unknown one is ignored.
            forget: Whether this was the last run: all data of the agent is removed.
        """
        if forget:
            self._agents.pop(agent, None)
        elif (state := self._agents.get(agent)) is not None:
            state.pending.clear()

    def confirm(self, token: str) -> tuple[Hashable, ...]:
        """Confirm the delivery of a batch by its token; return the ids of its blocks.

        A repeated or unknown token has no effect and returns an empty tuple.
        """
        for state in self._agents.values():
            ids = state.pending.pop(token, None)
            if ids is not None:
                state.confirm(ids)
                return ids
        return ()

    # Source of content

    def notify(self, agent: str, *blocks: Mapping[str, Any]) -> bool:
        """Add a row for an agent; return ``False`` if it is unknown, and keep nothing.

        Raises:
            LocalProtocolError: A block has no JSON form.
            ValueError: Too many rows are pending for the agent.
        """
        state = self._agents.get(agent)
        if state is None:
            return False
        encode([dict(block) for block in blocks])
        if len(state.rows) >= self._max_rows:
            raise ValueError(f"{self._max_rows} rows are already pending for the agent")
        if blocks:
            state.rows.append(tuple((next(self._ids), block) for block in blocks))
        return True

    def is_waiting(self, agent: str) -> bool:
        """Return whether rows of `notify` are pending for an agent."""
        state = self._agents.get(agent)
        return state is not None and bool(_undelivered(state, state.rows))

    def drain(self, agent: str) -> list[list[Mapping[str, Any]]] | None:
        """Remove and return the pending rows of an agent; ``None``: unknown agent."""
        state = self._agents.get(agent)
        if state is None:
            return None
        rows = _undelivered(state, state.rows)
        drained = {id for row in rows for id, _ in row}
        state.rows = [
            row for row in state.rows if drained.isdisjoint(i for i, _ in row)
        ]
        return [[block for _, block in row] for row in rows]

    # Gateway

    async def read_pending(
        self, headers: Mapping[str, str], session_id: str | None
    ) -> PendingBatch | None:
        """Return the pending content of the calling agent, with a new token.

        ``None`` if the agent is unknown or has no pending content. A backend that fails
        or exceeds its time limit counts as empty.
        """
        values = (
            value for name, value in headers.items() if name.lower() == self.header
        )
        agent = next(values, None)
        if agent is None or (state := self._agents.get(agent)) is None:
            return None
        rows = [*await self._read(agent), *state.rows]
        undelivered = _undelivered(state, rows)
        if not undelivered:
            return None
        token = str(uuid4())
        state.pending[token] = tuple(id for row in undelivered for id, _ in row)
        return PendingBatch(token, [[block for _, block in row] for row in undelivered])

    async def _read(self, agent: str) -> Sequence[Row]:
        if self._backend is None:
            return ()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._backend(agent)
        except Exception:  # of any kind
            logger.exception("the backend of the delegate failed")
            return ()


def _undelivered(state: _Agent, rows: Iterable[Row]) -> list[Row]:
    """Return the rows, without blocks that are confirmed or await confirmation."""
    excluded = {id for ids in state.pending.values() for id in ids}
    excluded.update(state.confirmed)
    undelivered = [
        tuple(block for block in row if block[0] not in excluded) for row in rows
    ]
    return [row for row in undelivered if row]


MIN_TOKEN_LENGTH: Final = 16
"""Minimum length of the bearer token, in characters."""

_JSON: Final = "application/json"


class NotifyApp:
    """ASGI application with the HTTP endpoints of a `QueueDelegate`.

    Args:
        delegate: The delegate that receives the content.
        token: The bearer token of clients. Its holder decides what models read.
        path: Path to add rows (POST) and to drain them (GET); GET of ``path/queued``
            returns whether rows are pending.
        limits: Limits on a request body.

    Raises:
        ValueError: The token is shorter than `MIN_TOKEN_LENGTH`.
    """

    def __init__(
        self,
        delegate: QueueDelegate,
        *,
        token: str,
        path: str = "/notify",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if len(token) < MIN_TOKEN_LENGTH:
            raise ValueError(
                f"the token must be a secret of {MIN_TOKEN_LENGTH} characters or more"
            )
        self._delegate = delegate
        self._expected = f"Bearer {token}".encode()
        self._path = path
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            raise RuntimeError(f"unknown kind of ASGI scope: {scope['type']!r}")
        exchange = Exchange(scope, receive, send, self._limits)
        try:
            exchange.check_framing()
            await self._route(exchange)
        except ClientGone:
            pass
        except HttpProblem as problem:
            message = failure(None, problem.error)
            await exchange.reply(problem.status, message, problem.headers)

    async def _route(self, exchange: Exchange) -> None:
        authorization = exchange.headers.get("authorization") or ""
        if not compare_digest(authorization.encode(errors="replace"), self._expected):
            raise HttpProblem(401, "the token is missing or wrong")
        path = exchange.path.removeprefix(exchange.scope.get("root_path") or "")
        agent = exchange.headers.get(self._delegate.header)
        if path == self._path and exchange.verb == "POST":
            await self._add_row(exchange, agent)
        elif path == self._path and exchange.verb == "GET":
            rows = None if agent is None else self._delegate.drain(agent)
            if rows is None:
                raise _unknown_agent()
            await exchange.reply_bytes(200, encode([[*row] for row in rows]), _JSON)
        elif path == f"{self._path}/queued" and exchange.verb == "GET":
            is_waiting = agent is not None and self._delegate.is_waiting(agent)
            await exchange.reply_bytes(200, encode(is_waiting), _JSON)
        else:
            raise HttpProblem(404, "nothing is served at this path")

    async def _add_row(self, exchange: Exchange, agent: str | None) -> None:
        try:
            blocks: Any = loads(await exchange.body())
        except ValueError:
            raise HttpProblem(400, ParseError("the body is not JSON")) from None
        if type(blocks) is not list or not all(
            type(block) is dict and type(block.get("type")) is str for block in blocks
        ):
            raise HttpProblem(400, InvalidParams("expected an array of content blocks"))
        try:
            is_known = agent is not None and self._delegate.notify(agent, *blocks)
        except (MCPError, ValueError) as error:
            raise HttpProblem(429, InvalidRequest(str(error))) from None
        if not is_known:
            raise _unknown_agent()
        await exchange.reply(202)


def _unknown_agent() -> HttpProblem:
    return HttpProblem(404, "the agent is unknown")
